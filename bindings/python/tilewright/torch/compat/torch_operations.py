"""torch's private operations behind F.linear_cross_entropy with options (2.15): what reaches them by another way than
the function, a compiled graph say, or an import of the function from before the patch."""

import torch

from ..._errors import UserError
from ..._library import REDUCTIONS
from .. import _ops
from ._patch import Patch

_ARGUMENTS = "Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias, Tensor? weight, "
_SCHEMAS = {
    "_linear_cross_entropy_batch_chunked":
        f"({_ARGUMENTS}str reduction, SymInt ignore_index, float label_smoothing, SymInt batch_chunk_size, "
        "str acc_policy, ScalarType acc_dtype, bool allow_retain_graph, bool compute_input_grad, "
        "bool compute_linear_weight_grad, bool compute_linear_bias_grad) -> (Tensor, Tensor, Tensor, Tensor)",
    "_linear_cross_entropy_batch_chunked_no_reduction":
        f"({_ARGUMENTS}SymInt ignore_index, SymInt batch_chunk_size, str acc_policy, ScalarType acc_dtype) -> Tensor",
}
_ACCUMULATOR = "_linear_cross_entropy_batch_chunked_accumulator"  # all of theirs, and the backward of 'none'
_NO_SIZES = ((0, 0), (0, 0), (0,))  # of gradients that are not asked for


def _module():
    """Where torch defines them."""
    try:
        import torch.nn.modules.linear_cross_entropy as module
    except ImportError:
        module = None
    for name, expected in _SCHEMAS.items():
        if not hasattr(module, name) or not hasattr(module, _ACCUMULATOR):
            raise UserError(f"patch_torch: expected a torch with the operation torch_nn::{name}, found "
                            f"{torch.__version__}, which has none; operations=False patches the function alone")
        found = str(getattr(torch.ops.torch_nn, name).default._schema).removeprefix(f"torch_nn::{name}")
        if found != expected:
            raise UserError(f"patch_torch: expected torch_nn::{name} with the schema {expected}, found {found}: this "
                            "torch is not known; operations=False patches the function alone")
    return module


def _made(input, linear_weight, target, linear_bias, weight, upstream, reduction, ignore_index, label_smoothing,
          computes) -> tuple:
    """(loss, gradients of input, weight and bias) in the types and sizes that theirs have."""
    types = [input.dtype if computed else None for computed in computes]
    operation = _ops.operation("linear_forward", input, linear_weight)
    loss, *made = operation(input, linear_weight, target, linear_bias, weight, upstream, REDUCTIONS[reduction],
                            ignore_index, label_smoothing, 0.0, 1.0, 0.0, None, 0, True, 0, [False] * 4, *types)
    made = iter(made)
    gradients = [next(made) if computed else input.new_empty(sizes) for computed, sizes in zip(computes, _NO_SIZES)]
    return loss.to(input.dtype), *gradients


def patch_operations(patch: Patch, is_ours) -> None:
    """Puts ours at the keys of CPU and CUDA, where theirs has one implementation for all devices.

    Args:
        is_ours: of (input, linear_weight, target, linear_bias, weight): whether ours makes that call; else theirs does.

    Raises:
        tilewright.UserError: this torch's operations are not the ones that are known.
    """
    module = _module()
    accumulator = getattr(module, _ACCUMULATOR)

    def chunked(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, label_smoothing,
                batch_chunk_size, acc_policy, acc_dtype, allow_retain_graph, *computes):
        tensors = (input, linear_weight, target, linear_bias, weight)
        if is_ours(*tensors):
            return _made(*tensors, None, reduction, ignore_index, label_smoothing, computes)
        return accumulator(*tensors, reduction, ignore_index, label_smoothing, batch_chunk_size, acc_policy, acc_dtype,
                           *computes)

    def without_reduction(*arguments):
        *tensors, ignore_index, batch_chunk_size, acc_policy, acc_dtype = arguments
        return chunked(*tensors, "none", ignore_index, 0.0, batch_chunk_size, acc_policy, acc_dtype, False, False,
                       False, False)[0]

    def accumulated(*arguments, loss_grad_output=None, **named):
        is_backward = loss_grad_output is not None and len(arguments) == 14
        if is_backward and arguments[5] == "none" and is_ours(*arguments[:5]):
            return _made(*arguments[:5], loss_grad_output.float(), *arguments[5:8], arguments[11:])
        return accumulator(*arguments, loss_grad_output=loss_grad_output, **named)

    library = torch.library.Library("torch_nn", "IMPL")
    patch.later(library._destroy)
    for key in ("CPU", "CUDA"):
        library.impl("_linear_cross_entropy_batch_chunked", torch._disable_dynamo(chunked), key)
        library.impl("_linear_cross_entropy_batch_chunked_no_reduction", torch._disable_dynamo(without_reduction), key)
    patch.set(module, _ACCUMULATOR, accumulated)

"""torch's own F.linear_cross_entropy (2.13 and later), and the module over it."""

import functools
import inspect

import torch

from ..._errors import UserError
from ..functional import linear_cross_entropy
from ._patch import Patch
from .torch_operations import patch_operations

_EXPECTED = ("input", "linear_weight", "target", "linear_bias", "weight", "reduction", "ignore_index",
             "label_smoothing", "options")
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def _is_ours(input, linear_weight, target, linear_bias, weight) -> bool:
    """Whether the call is one that ours makes; torch's own does the others (class probabilities, K dimensions)."""
    tensors = [t for t in (input, linear_weight, target, linear_bias, weight) if t is not None]
    return (all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in tensors)
            and input.dim() in (1, 2) and linear_weight.dim() == 2 and input.dtype in _FLOATS
            and linear_weight.dtype == input.dtype and not target.is_floating_point()
            and input.device.type in ("cpu", "cuda") and not (weight is not None and weight.requires_grad))


def patch_torch(operations: bool = True) -> Patch:
    """Puts ours in the place of torch.nn.functional.linear_cross_entropy, which torch.nn.LinearCrossEntropyLoss calls.

    With `operations` also in the place of the private operations that torch's makes such a loss with where it has
    options; they are reached by graphs that were compiled before, and by who imported the function itself before. Their
    loss has input's type.

    `options` has then no meaning; the loss is float32; a mean of no rows is 0, not NaN. Calls that ours does not make
    (class probabilities, K-dimensional losses, float64) go to torch's.

    Raises:
        tilewright.UserError: this torch has no such function, or one with other parameters; or operations of another
            schema.
    """
    functional = torch.nn.functional
    theirs = getattr(functional, "linear_cross_entropy", None)
    if theirs is None:
        raise UserError(f"patch_torch: expected torch 2.13 or later, which has F.linear_cross_entropy, found "
                        f"{torch.__version__}")
    found = tuple(inspect.signature(theirs).parameters)
    if found != _EXPECTED:
        raise UserError(f"patch_torch: expected F.linear_cross_entropy with the parameters {', '.join(_EXPECTED)}, "
                        f"found {', '.join(found)}: this torch is not known")

    @functools.wraps(theirs)
    def patched(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None,
                label_smoothing=0.0, options=None):
        if not _is_ours(input, linear_weight, target, linear_bias, weight):
            return theirs(input, linear_weight, target, linear_bias=linear_bias, weight=weight, reduction=reduction,
                          ignore_index=ignore_index, label_smoothing=label_smoothing, options=options)
        return linear_cross_entropy(input, linear_weight, target, linear_bias=linear_bias, weight=weight,
                                    reduction=reduction, ignore_index=-100 if ignore_index is None else ignore_index,
                                    label_smoothing=label_smoothing)

    patch = Patch()
    if operations:
        patch_operations(patch, _is_ours)
    patch.set(functional, "linear_cross_entropy", patched)
    return patch

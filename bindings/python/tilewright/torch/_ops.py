"""The operations as torch knows them: torch.ops.tilewright.*, with an implementation and a shape function each.

Results are lists without the tensors that were not asked for. Nothing here is differentiable: see _autograd.py.
"""

from typing import Callable, List, Optional

import torch
from torch import Tensor

from .._library import REDUCTIONS
from . import _calls
from ._calls import Options
from ._devices import device_of

_NONE = REDUCTIONS["none"]

_library = torch.library.Library("tilewright", "DEF")

_LOSS_OPTIONS = ("int reduction, int ignore_index, float label_smoothing, float z_loss, float logit_scale, "
                 "float softcap")
_LINEAR_OPTIONS = (_LOSS_OPTIONS + ", float[]? margin, int workspace_limit, bool quiet_zeros, "
                                    "int objective, str? configuration")
_LINEAR_INPUTS = "Tensor input, Tensor weight, Tensor target, Tensor? bias, Tensor? class_weight"
_GRADIENT_TYPES = "ScalarType? d_input, ScalarType? d_weight, ScalarType? d_bias"
LINEAR_FORWARD = f"{_LINEAR_INPUTS}, Tensor? upstream, {_LINEAR_OPTIONS}, bool[] wants, {_GRADIENT_TYPES}"
LINEAR_BACKWARD = (f"{_LINEAR_INPUTS}, Tensor lse, Tensor? grad_loss, Tensor? grad_lse, Tensor? grad_entropy, "
                   f"{_LINEAR_OPTIONS}, {_GRADIENT_TYPES}")
define = _library.define


def implement(name: str, function: Callable, fake: Callable) -> None:
    """What an operation does on tensors, and on tensors without memory."""
    for key in ("CPU", "CUDA"):  # torch.compile knows the operation, and shall not look inside when it runs
        _library.impl(name, torch._disable_dynamo(function), key)
    torch.library.register_fake(f"tilewright::{name}", fake, lib=_library)


def _rows(matrix: Tensor) -> Tensor:
    """The matrix itself where its rows' elements are adjacent and rows do not overlap, else a copy."""
    if matrix.stride(1) == 1 and matrix.stride(0) >= matrix.size(1):
        return matrix
    return matrix.contiguous()


def _present(**tensors) -> dict:
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _dense(vector: Optional[Tensor]) -> Optional[Tensor]:
    """A vector as kernels read it: float32, elements adjacent (autograd's upstream gradients are often expanded)."""
    if vector is None or vector.dtype == torch.float32 and vector.is_contiguous():
        return vector
    return vector.to(torch.float32).contiguous()


def _contiguous(vector: Optional[Tensor]) -> Optional[Tensor]:
    return None if vector is None else vector.contiguous()


def allows_tf32(matrix: Tensor) -> bool:
    """Whether torch says that products of such float32 matrices may round their operands to TF32."""
    return matrix.dtype == torch.float32 and matrix.is_cuda and torch.backends.cuda.matmul.allow_tf32


_ROW_TYPES = (torch.float32, torch.float32, torch.int32, torch.int32)
_ROW_NAMES = ("lse", "entropy", "argmax", "correct")
_MONITORED = 6  # kMonitoredQuantities


def _row_outputs(like: Tensor, wants: List[bool]) -> dict:
    """Empty vectors of what is wanted: of the rows' lse, entropy, argmax and correct, then what is monitored of all."""
    rows = like.shape[0]
    outputs = {name: like.new_empty(rows, dtype=type)
               for name, type, wanted in zip(_ROW_NAMES, _ROW_TYPES, wants) if wanted}
    if any(wants[4:]):
        outputs["monitored"] = like.new_empty(_MONITORED, dtype=torch.float32)
    return outputs


def _loss(like: Tensor, reduction: int) -> Tensor:
    return like.new_empty(like.shape[0] if reduction == _NONE else (), dtype=torch.float32)


def _gradients(input, weight, bias, d_input, d_weight, d_bias) -> dict:
    """Empty gradients of the types that are given; None: that one is not wanted."""
    return _present(
        d_hidden=None if d_input is None else input.new_empty(input.shape, dtype=d_input),
        d_weight=None if d_weight is None else weight.new_empty(weight.shape, dtype=d_weight),
        d_bias=None if d_bias is None else bias.new_empty(bias.shape, dtype=d_bias))


define(f"linear_forward({LINEAR_FORWARD}) -> Tensor[]")


def _forward_outputs(input, weight, bias, reduction, wants, d_input, d_weight, d_bias) -> dict:
    return {"loss": _loss(input, reduction), **_row_outputs(input, wants),
            **_gradients(input, weight, bias, d_input, d_weight, d_bias)}


def linear_options(options: tuple, input: Tensor, makes_gradients: bool) -> Options:
    """Options of a call of the library, of those of an operation: reduction to configuration."""
    options = Options(*options, tf32=allows_tf32(input)).of_call(makes_gradients)
    return options if options.margin is None else options._replace(margin=tuple(options.margin))


def linear_forward(input, weight, target, bias, class_weight, upstream, *rest) -> List[Tensor]:
    """The losses, what `wants` asks for of (lse, entropy, argmax, correct, monitored), and the gradients.

    Args:
        input: N×H. weight: V×H, of its type. target: N, int32 or int64. bias: V. class_weight: V.
        upstream: the gradient that arrives for the loss, 1 number or N; None: 1.
        rest: the options (as of `Options`, reduction to configuration), wants, then d_input, d_weight, d_bias: type of
            the gradient, float32 or the tensor's; None: not wanted.
    """
    device, entry, inputs = linear_entry(input, weight, target, bias, class_weight, upstream, *rest)
    device.poll()
    return entry.run(inputs, device, reports=True)


def linear_entry(input, weight, target, bias, class_weight, upstream, *rest) -> tuple:
    """(device, prepared call, tensors that it is run with), of the arguments of `linear_forward`."""
    *options, wants, d_input, d_weight, d_bias = rest
    device, types = device_of(input), (d_input, d_weight, d_bias)
    inputs = (_rows(input), _rows(weight), target.contiguous(), _contiguous(bias), _dense(class_weight),
              _dense(upstream))
    entry = _calls.entry_of(
        device, _calls.FORWARD, linear_options(options, input, any(types)), (*wants, *types), inputs,
        lambda: _forward_outputs(input, weight, bias, options[0], wants, *types))
    return device, entry, [tensor for tensor in inputs if tensor is not None]


def _linear_forward_fake(input, weight, target, bias, class_weight, upstream, reduction, *rest):
    return list(_forward_outputs(input, weight, bias, reduction, *rest[-4:]).values())


define(f"linear_backward({LINEAR_BACKWARD}) -> Tensor[]")


def _backward_inputs(input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy,
                     reduction) -> tuple:
    if grad_loss is None:
        grad_loss = torch.zeros_like(_loss(input, reduction))
    return (_rows(input), _rows(weight), target.contiguous(), _contiguous(bias), _dense(class_weight),
            _dense(grad_loss), _dense(grad_lse), _dense(grad_entropy), lse.contiguous())


def linear_backward(input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy,
                    *rest) -> List[Tensor]:
    """The gradients from the lse of a forward call, for the gradients that arrive for loss, lse and entropy."""
    options, types = rest[:-3], rest[-3:]
    inputs = _backward_inputs(input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy,
                              options[0])
    return _calls.run(device_of(input), _calls.BACKWARD, linear_options(options, input, True), types, inputs,
                      lambda: _gradients(input, weight, bias, *types), reports=False)


def _linear_backward_fake(input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy, *rest):
    return list(_gradients(input, weight, bias, *rest[-3:]).values())


def linear_backward_onto(input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy, options,
                         outputs: dict) -> None:
    """As `linear_backward`, with d_weight and d_bias of `outputs` added to what they hold. No operation of torch's."""
    options = linear_options(options, input, True)._replace(accumulate=True)
    inputs = _backward_inputs(input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy,
                              options.reduction)
    _calls.run_onto(device_of(input), _calls.BACKWARD, options, inputs, outputs)


define(f"logits_forward(Tensor logits, Tensor target, Tensor? class_weight, {_LOSS_OPTIONS}, bool[] wants) -> Tensor[]")


def logits_forward(logits, target, class_weight, reduction, ignore_index, label_smoothing, z_loss, logit_scale,
                   softcap, wants) -> List[Tensor]:
    """The losses over logits N×V, and what `wants` asks for of (lse, entropy, argmax, correct)."""
    device = device_of(logits)
    device.poll()
    options = Options(reduction, ignore_index, label_smoothing, z_loss, logit_scale, softcap)
    inputs = (_rows(logits), target.contiguous(), _dense(class_weight), None, None, None)
    return _calls.run(device, _calls.OVER_LOGITS, options, tuple(wants), inputs,
                      lambda: {"loss": _loss(logits, reduction), **_row_outputs(logits, wants)}, reports=True)


def _logits_forward_fake(logits, target, class_weight, reduction, ignore_index, label_smoothing, z_loss, logit_scale,
                         softcap, wants):
    return [_loss(logits, reduction), *_row_outputs(logits, wants).values()]


define(
    "logits_backward(Tensor logits, Tensor target, Tensor? class_weight, Tensor? grad_loss, Tensor? grad_lse, "
    f"Tensor? grad_entropy, {_LOSS_OPTIONS}) -> Tensor")


def logits_backward_onto(logits, target, class_weight, grad_loss, grad_lse, grad_entropy, options: Options,
                         d_logits: Tensor) -> None:
    """Stores the gradient of the logits in `d_logits`, which may be the logits themselves. No operation of torch's."""
    loss = _loss(logits, options.reduction)  # kernels make it again, and nobody reads it
    if grad_loss is None:
        grad_loss = torch.zeros_like(loss)
    inputs = (logits, target.contiguous(), _dense(class_weight), _dense(grad_loss), _dense(grad_lse),
              _dense(grad_entropy))
    _calls.run_onto(device_of(logits), _calls.OVER_LOGITS, options, inputs, {"loss": loss, "d_logits": d_logits})


def logits_backward(logits, target, class_weight, grad_loss, grad_lse, grad_entropy, reduction, ignore_index,
                    label_smoothing, z_loss, logit_scale, softcap) -> Tensor:
    """The gradient of the logits, for the gradients that arrive for loss, lse and entropy."""
    options = Options(reduction, ignore_index, label_smoothing, z_loss, logit_scale, softcap)
    d_logits = logits.new_empty(logits.shape)
    logits_backward_onto(_rows(logits), target, class_weight, grad_loss, grad_lse, grad_entropy, options, d_logits)
    return d_logits


def _logits_backward_fake(logits, *_):
    return logits.new_empty(logits.shape)


implement("linear_forward", linear_forward, _linear_forward_fake)
implement("linear_backward", linear_backward, _linear_backward_fake)
implement("logits_forward", logits_forward, _logits_forward_fake)
implement("logits_backward", logits_backward, _logits_backward_fake)


def is_plain(*tensors: Optional[Tensor]) -> bool:
    """Whether tensors are no more than what they hold; else their type says what is done to them."""
    return all(t is None or type(t) is Tensor or type(t) is torch.nn.Parameter for t in tensors)


def operation(name: str, *tensors: Optional[Tensor]):
    """The operation `name`, at its cheapest: the Python function itself where nobody watches torch's dispatcher."""
    plain = torch._C._len_torch_dispatch_stack() == 0 and is_plain(*tensors)
    return globals()[name] if plain else getattr(torch.ops.tilewright, name).default

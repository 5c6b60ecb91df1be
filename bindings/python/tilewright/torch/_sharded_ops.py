"""The operations torch.ops.tilewright.sharded_*, for torch.compile: a shard's call with its collectives in one.

A graph holds the group's name. What ranks have to have in common is compared when such an operation first runs.
"""

from typing import List

from torch import Tensor
from torch.distributed import distributed_c10d

from . import _ops, _sharded, _vocabulary
from ._calls import Options

_SHARED = "str group, str dx_reduce) -> Tensor[]"

_ops.define(f"sharded_forward({_ops.LINEAR_FORWARD}, {_SHARED}")
_ops.define(f"sharded_backward({_ops.LINEAR_BACKWARD}, {_SHARED}")


def _operations(call: str, tensors: tuple, options: tuple, asked: tuple, group: str, dx_reduce: str) -> tuple:
    """(operations of this rank's shard, the weights of all classes or None).

    Args:
        tensors: input, weight, bias, class weights of this rank.
        asked: what else has to be the same on all ranks.
    """
    input, weight, bias, class_weight = tensors
    shard = _vocabulary.shard_of(distributed_c10d._resolve_process_group(group), weight.shape[0], {
        "call": call, "shape of input": tuple(input.shape), "type": str(input.dtype), "dx_reduce": dx_reduce,
        "allow_tf32": _ops.allows_tf32(input), **Options(*options)._asdict(), "wants": asked,
        "tensors": tuple(tensor is not None for tensor in tensors)})
    if class_weight is not None:
        class_weight = _vocabulary.all_class_weights(class_weight, shard)
    return _sharded.Operations(shard, dx_reduce), class_weight


def _hashable(options: tuple) -> tuple:
    return tuple(tuple(option) if isinstance(option, list) else option for option in options)


def sharded_forward(input, weight, target, bias, class_weight, upstream, *rest) -> List[Tensor]:
    """As `linear_forward`, of this rank's classes. Input is N×H or, with reduce_scatter, a part of its rows."""
    *rest, group, dx_reduce = rest
    options, (wants, *types) = _hashable(rest[:-4]), rest[-4:]
    asked = (*wants, any(types), upstream is not None)
    operations, class_weight = _operations("forward", (input, weight, bias, class_weight), options, asked, group,
                                           dx_reduce)
    return operations.forward(input, weight, target, bias, class_weight, upstream, *options, tuple(wants), *types)


def _forward_fake(input, weight, target, bias, class_weight, upstream, reduction, *rest):
    wants, *types = rest[-6:-2]
    rows = input.new_empty(target.shape[0], input.shape[1])
    outputs = _ops._forward_outputs(rows, weight, bias, reduction, wants, *types)
    if "d_hidden" in outputs:
        outputs["d_hidden"] = input.new_empty(input.shape, dtype=types[0])
    return list(outputs.values())


def sharded_backward(input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy,
                     *rest) -> List[Tensor]:
    """As `linear_backward`, of this rank's classes."""
    *rest, group, dx_reduce = rest
    options, types = _hashable(rest[:-3]), rest[-3:]
    upstream = (grad_loss, grad_lse, grad_entropy)
    operations, class_weight = _operations("backward", (input, weight, bias, class_weight), options,
                                           tuple(gradient is not None for gradient in upstream), group, dx_reduce)
    return operations.backward(input, weight, target, bias, class_weight, lse, *upstream, *options, *types)


def _backward_fake(input, weight, target, bias, class_weight, lse, grad_loss, grad_lse, grad_entropy, *rest):
    return list(_ops._gradients(input, weight, bias, *rest[-5:-2]).values())


_ops.implement("sharded_forward", sharded_forward, _forward_fake)
_ops.implement("sharded_backward", sharded_backward, _backward_fake)

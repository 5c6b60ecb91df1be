"""`linear_cross_entropy` with a group: its checks, and its gradients."""

from typing import Optional, Union

import torch
import torch.distributed
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from . import _autograd, _checks, _ops, _sharded, _sharded_ops, _vocabulary  # noqa: F401 (operations)
from ._plans import Asked, LinearPlan, cast, plan_of, saves_gradients


def _group_of(group: Union[torch.distributed.ProcessGroup, DeviceMesh]) -> torch.distributed.ProcessGroup:
    if isinstance(group, DeviceMesh):
        _checks.expect(group.ndim == 1, "group", "a mesh of one dimension, such as mesh['tp']", group)
        return group.get_group()
    _checks.expect(isinstance(group, torch.distributed.ProcessGroup), "group",
                   "a torch.distributed.ProcessGroup, or a DeviceMesh of one dimension", group)
    return group


def _local(name: str, tensor: Optional[Tensor], group: torch.distributed.ProcessGroup,
           main_grad: bool) -> Optional[Tensor]:
    """This rank's classes of a DTensor that is sharded over the group by its first dimension, and nowhere else."""
    placements = getattr(tensor, "placements", None)
    if placements is None:
        return tensor
    _checks.expect(not torch.compiler.is_compiling(), name, "in a graph a tensor of this process (to_local())",
                   "a DTensor")
    ranks_of = torch.distributed.get_process_group_ranks
    is_groups = [ranks_of(of) == ranks_of(group) for of in tensor.device_mesh.get_all_groups()]
    is_shard = any(is_groups) and all(placement.is_shard(0) if is_groups_own else placement.is_replicate()
                                      for placement, is_groups_own in zip(placements, is_groups))
    _checks.expect(not main_grad, name, "beside main_grad a tensor of this process", "a DTensor")
    _checks.expect(is_shard, name, "a DTensor sharded by its classes over the group's dimension of the mesh, and "
                   "replicated over others", f"placements {placements} of {tensor.device_mesh}")
    return tensor.to_local()


def _check(dx_reduce: str, rows: int, labels: int, ranks: int) -> None:
    _checks.expect(dx_reduce in _vocabulary.REDUCTIONS, "dx_reduce", f"one of {_vocabulary.REDUCTIONS}",
                   repr(dx_reduce))
    parts = ranks if dx_reduce == "reduce_scatter" else 1
    _checks.expect(rows * parts == labels, "input", f"{labels // parts} rows, for {labels} labels of {parts} ranks",
                   rows)


class _Sharded(torch.autograd.Function):
    """The loss and its extras. Inputs: N×H (or a part of the rows), V_r×H, V_r, N, V, N."""

    @staticmethod
    def forward(ctx, input, weight, bias, target, class_weight, row_factor, plan: LinearPlan, wanted: tuple,
                operations: _sharded.Operations):
        loss, extras, row_losses, gradients = _autograd._forward(
            operations.forward, input, weight, bias, target, class_weight, row_factor, plan)
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.wanted, ctx.operations = plan, wanted, operations
        ctx.row_losses = row_losses if row_losses is not None and ctx.needs_input_grad[5] else None
        ctx.gradients = _those(gradients, wanted) if plan.saves_gradients else None
        ctx.save_for_backward(input, weight, bias, target, class_weight, row_factor, extras[0])
        lse, entropy, argmax, correct, monitored = extras
        ctx.mark_non_differentiable(*(t for t in (argmax, correct, monitored) if t is not None))
        return loss, lse if plan.wants[0] else None, entropy, argmax, correct, monitored

    @staticmethod
    def backward(ctx, *upstream):
        upstream = upstream[:3]
        if all(gradient is None for gradient in upstream):
            return (None,) * 9
        with torch.no_grad():
            gradients = _gradients_of(ctx, upstream)
        if torch.is_grad_enabled():
            input, weight, bias, _, _, row_factor, _ = ctx.saved_tensors
            gradients = _autograd._refuse_second_derivatives(
                gradients, [*upstream, input, weight, bias, row_factor],
                "cross_entropy(torch.nn.functional.linear(input, weight), target)")
        d_input, d_weight, d_bias, d_row_factor = gradients
        return d_input, d_weight, d_bias, None, None, d_row_factor, None, None, None


def _those(gradients, wanted: tuple) -> list:
    return [gradient if is_wanted else None for gradient, is_wanted in zip(gradients, wanted)]


def _gradients_of(ctx, upstream) -> list:
    """Of input, weight, bias and row factor. Ranks issue the same collectives whichever of these they want."""
    grad_loss, grad_lse, grad_entropy = upstream
    plan = ctx.plan
    d_row_factor = None
    if ctx.row_losses is not None and grad_loss is not None:
        d_row_factor = ctx.row_losses * grad_loss
    gradients, ctx.gradients = ctx.gradients, None
    if gradients is not None and grad_lse is None and grad_entropy is None:
        return [*_autograd._scaled(gradients, grad_loss, Asked(plan, False)), d_row_factor]
    del gradients
    input, weight, bias, target, class_weight, row_factor, lse = ctx.saved_tensors
    onto = plan.main_grad and ctx.wanted[1]
    operation = ctx.operations.backward_onto(weight.main_grad) if onto else ctx.operations.backward
    made = _autograd._backward(operation, input, weight, bias, target, class_weight, row_factor, lse, upstream, plan,
                               plan.needs)
    if onto:
        made[1] = _autograd._beside_main_grad(weight)
    made = _those(made, ctx.wanted)
    return [*(g if g is None else cast(g, t.dtype) for g, t in zip(made, (input, weight, bias))), d_row_factor]


def _beside_other_ranks(plan: LinearPlan, dx_reduce: str) -> LinearPlan:
    """The plan with such gradients that collectives are the same whichever of them the other ranks want.

    What input's gradient is made of comes from all ranks, so that each makes its part. Of weight's and bias's a rank
    makes what it wants. Where nothing is added up, one that wants none at all makes weight's for nothing: chunks of
    rows are others without gradients.
    """
    needs = plan.needs
    if torch.is_grad_enabled():
        needs = (needs[0] or dx_reduce != "none", *needs[1:])
        if not any(needs):
            needs = (False, True, False)
    saves = saves_gradients(needs, plan.options[0], plan.main_grad, plan.wants)
    return LinearPlan(plan.options, plan.compute, plan.wants, needs, saves, plan.main_grad, plan.dtypes)


def _with_a_backward_call(hidden: Tensor, *others: Optional[Tensor]) -> Tensor:
    """The rows; where no tensor wants a gradient, as a leaf, so that this rank has a backward call, as others have."""
    if not torch.is_grad_enabled() or any(t is not None and t.requires_grad for t in (hidden, *others)):
        return hidden
    return hidden.detach().requires_grad_()


def _at_once(shard, dx_reduce: str, given: tuple, plan: LinearPlan, wanted: tuple) -> tuple:
    """(loss, lse, entropy, argmax, correct, monitored) of hidden, weight, bias, labels, class and row weights."""
    hidden, linear_weight, linear_bias, labels, class_weight, row_weight = given
    if class_weight is not None:
        class_weight = _vocabulary.all_class_weights(class_weight, shard)
    factor = None if row_weight is None else _checks.row_factor(row_weight, labels, class_weight, plan.options)
    hidden = _with_a_backward_call(hidden, linear_weight, linear_bias, factor)
    return _Sharded.apply(hidden, linear_weight, linear_bias, labels, class_weight, factor, plan, wanted,
                          _sharded.Operations(shard, dx_reduce))


def _in_a_graph(group, dx_reduce: str, given: tuple, plan: LinearPlan) -> tuple:
    """The same in a graph of torch.compile."""
    *tensors, labels, class_weight, row_weight = given
    factor = None
    if row_weight is not None:
        _checks.expect(class_weight is None, "row_weight", "no class weights beside it in a graph", "both")
        factor = _checks.row_factor(row_weight, labels, None, plan.options)
    outputs = _autograd.CompiledLinearCrossEntropy.apply(*tensors, labels, class_weight, factor, plan,
                                                         (group.group_name, dx_reduce))
    return _autograd.spread(outputs, plan.wants)


def linear_cross_entropy(group, dx_reduce: str, input, linear_weight, target, *, linear_bias, weight, reduction,
                         ignore_index, label_smoothing, z_loss, logit_scale, softcap, margin, shift, row_weight, wants,
                         workspace_limit, quiet_zeros, main_grad, objective, configuration):
    """(loss, lse, entropy, correct, argmax, monitored) of the N rows of target; None: not wanted.

    Args:
        wants: of lse, entropy, argmax, correct, monitored. The others: see `functional.linear_cross_entropy`.
    """
    group = _group_of(group)
    linear_weight, linear_bias, weight = (_local(name, t, group, main_grad) for name, t in (
        ("linear_weight", linear_weight), ("linear_bias", linear_bias), ("weight", weight)))
    hidden = input.reshape(-1, input.shape[-1])
    _check(dx_reduce, hidden.shape[0], target.numel(), torch.distributed.get_world_size(group))
    options = dict(
        reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss,
        logit_scale=logit_scale, softcap=softcap, margin=margin, shift=shift, workspace_limit=workspace_limit,
        quiet_zeros=quiet_zeros, main_grad=main_grad, objective=objective, configuration=configuration)
    tensors = (input, linear_weight, target, linear_bias, weight, row_weight)
    asked = plan_of(tensors, *options.values(), *wants,
                    rows=target.shape if dx_reduce == "reduce_scatter" else None)
    plan = _beside_other_ranks(asked, dx_reduce)
    labels = _checks.flat_target(target, shift, plan.options[1])
    if row_weight is not None and row_weight.shape != target.shape:
        row_weight = torch.nn.functional.pad(row_weight, (0, shift))
    given = (hidden, linear_weight, linear_bias, labels, weight, None if reduction == "none" else row_weight)
    if torch.compiler.is_compiling():
        outputs = _in_a_graph(group, dx_reduce, given, plan)
    else:
        facts = {"call": "eager", "shape of input": tuple(hidden.shape),
                 "type": (str(plan.compute), *map(str, plan.dtypes)), "dx_reduce": dx_reduce,
                 "grad mode": torch.is_grad_enabled(), "allow_tf32": _ops.allows_tf32(hidden), **options,
                 "wants": wants,
                 "tensors": tuple(tensor is not None for tensor in tensors)}
        outputs = _at_once(_vocabulary.shard_of(group, linear_weight.shape[0], facts), dx_reduce, given, plan,
                           asked.needs)
    loss, lse, entropy, argmax, correct, monitored = outputs
    if reduction == "none" and row_weight is not None:
        loss = loss * row_weight.reshape(-1)
    return loss, lse, entropy, correct, argmax, monitored

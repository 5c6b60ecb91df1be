"""Gradients of the losses.

What a forward call saves, and what its backward call then costs:

  gradients   mean and sum: gradients for an upstream one of 1, made with the loss (three products in all). The backward
              call multiplies them by the number that arrives, which no host reads.
  lse         everything else: none, main_grad, a gradient for lse or entropy, a second backward call. The products are
              computed again from each row's lse (four in all).

float16 gradients are saved as float32: 1/N is subnormal from N = 65536 on, and a scaled loss shall not find them gone.
"""

from typing import Optional, Sequence

import torch
from torch import Tensor

from .._library import REDUCTIONS
from . import _calls, _ops
from ._plans import Asked, LinearPlan, cast, computed_of, made_types, saved_types

_NONE = REDUCTIONS["none"]


def _forward(operation, input, weight, bias, target, class_weight, row_factor, plan: LinearPlan):
    """Loss, [lse, entropy, argmax, correct, monitored], losses of the rows, [d_input, d_weight, d_bias].

    None: not there.
    """
    computed = computed_of(input, weight, bias, plan.compute)
    options = plan.options if row_factor is None else (_NONE, *plan.options[1:])
    wants = plan.stored()
    types = saved_types((input, weight, bias), computed, plan)
    upstream = row_factor if plan.saves_gradients else None
    results = iter(operation(computed.input, computed.weight, target, computed.bias, class_weight, upstream, *options,
                             wants, *types))
    loss = next(results)
    extras = [next(results) if wanted else None for wanted in wants]
    gradients = [next(results) if type is not None else None for type in types]
    if row_factor is None:
        return loss, extras, None, gradients
    return torch.dot(loss, row_factor), extras, loss, gradients


def _backward(operation, input, weight, bias, target, class_weight, row_factor, lse, upstream, plan, needs) -> list:
    """The gradients of input, weight and bias from lse, in the types in which they are made."""
    grad_loss, grad_lse, grad_entropy = upstream
    options = plan.options
    if row_factor is not None:
        options = (_NONE, *options[1:])
        grad_loss = None if grad_loss is None else row_factor * grad_loss
    computed = computed_of(input, weight, bias, plan.compute)
    types = made_types((input, weight, bias), computed, needs, saved=False)
    results = iter(operation(computed.input, computed.weight, target, computed.bias, class_weight, lse, grad_loss,
                             grad_lse, grad_entropy, *options, *types))
    return [next(results) if type is not None else None for type in types]


class _Refuse(torch.autograd.Function):
    """Passes gradients on, and refuses to be differentiated."""

    @staticmethod
    def forward(ctx, message, count, *tensors):
        ctx.message = message
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError(ctx.message)


def _refuse_second_derivatives(gradients: list, inputs: list, replacement: str) -> list:
    """The gradients; where a graph of them is made, with a node that refuses to be differentiated."""
    if not torch.is_grad_enabled():
        return gradients
    message = ("tilewright: the loss has no second derivatives (double backward); for them use "
               f"torch.nn.functional.{replacement}")
    made = [gradient for gradient in gradients if gradient is not None]
    passed = iter(_Refuse.apply(message, len(made), *made, *(t for t in inputs if t is not None and t.requires_grad)))
    return [None if gradient is None else next(passed) for gradient in gradients]


class LinearCrossEntropy(torch.autograd.Function):
    """The loss and its extras. Inputs: N×H, V×H, V, N, V, N; where the call is direct also (..., H), and (...)."""

    @staticmethod
    def forward(ctx, input, weight, bias, target, class_weight, row_factor, asked: Asked):
        plan, row_losses = asked.plan, None
        made = asked.run(input, weight, bias, target, class_weight) if asked.is_direct else None
        if made is None:
            made, row_losses = _forward_of_any(input, weight, bias, target, class_weight, row_factor, plan)
        loss, lse, entropy, argmax, correct, monitored, *gradients = made
        ctx.set_materialize_grads(False)
        ctx.asked = asked
        ctx.row_losses = row_losses if row_losses is not None and ctx.needs_input_grad[5] else None
        ctx.gradients = gradients if plan.saves_gradients else None
        ctx.save_for_backward(input, weight, bias, target, class_weight, row_factor, lse)
        if plan.has_loss_alone:
            return loss
        ctx.mark_non_differentiable(*(t for t in (argmax, correct, monitored) if t is not None))
        return loss, lse if plan.wants[0] else None, entropy, argmax, correct, monitored

    @staticmethod
    def backward(ctx, grad_loss, grad_lse=None, grad_entropy=None, *_):
        if grad_loss is None and grad_lse is None and grad_entropy is None:
            return (None,) * 7
        if not torch.is_grad_enabled():
            gradients = _gradients_of(ctx, grad_loss, grad_lse, grad_entropy)
        else:
            with torch.no_grad():
                gradients = _gradients_of(ctx, grad_loss, grad_lse, grad_entropy)
            input, weight, bias, _, _, row_factor, _ = ctx.saved_tensors
            gradients = _refuse_second_derivatives(
                gradients, [grad_loss, grad_lse, grad_entropy, input, weight, bias, row_factor],
                "cross_entropy(torch.nn.functional.linear(input, weight), target)")
        d_input, d_weight, d_bias, d_row_factor = gradients
        return d_input, d_weight, d_bias, None, None, d_row_factor, None


# What Function.apply comes to outside of functorch's transforms, which want the arguments looked at before.
_apply_at_once = super(torch.autograd.Function, LinearCrossEntropy).apply


def apply_linear(*arguments):
    """`LinearCrossEntropy.apply`, at its cheapest."""
    if torch._C._are_functorch_transforms_active():
        return LinearCrossEntropy.apply(*arguments)
    return _apply_at_once(*arguments)


def _forward_of_any(input, weight, bias, target, class_weight, row_factor, plan: LinearPlan):
    """What `Asked.run` returns, and the losses of the rows where there is a row factor."""
    loss, extras, row_losses, gradients = _forward(
        _ops.operation("linear_forward", input, weight), input.reshape(-1, input.shape[-1]), weight, bias,
        target.reshape(-1), class_weight, row_factor, plan)
    if gradients[0] is not None:
        gradients[0] = gradients[0].view(input.shape)
    return [loss, *extras, *gradients], row_losses


def _gradients_of(ctx, grad_loss, grad_lse, grad_entropy) -> list:
    """Of input, weight, bias and row factor."""
    d_row_factor = None
    if ctx.row_losses is not None and grad_loss is not None:
        d_row_factor = ctx.row_losses * grad_loss
    gradients, ctx.gradients = ctx.gradients, None  # the first backward call's: the engine owns what it gets
    if gradients is not None and grad_lse is None and grad_entropy is None:
        return [*_scaled(gradients, grad_loss, ctx.asked), d_row_factor]
    del gradients
    input, weight, bias, target, class_weight, row_factor, lse = ctx.saved_tensors
    needs = ctx.needs_input_grad[:3]
    plan = ctx.asked.plan
    onto = plan.main_grad and needs[1]
    operation = _onto_main_grad(weight) if onto else _ops.operation("linear_backward", input, weight)
    made = _backward(operation, input.reshape(-1, input.shape[-1]), weight, bias, target.reshape(-1), class_weight,
                     row_factor, lse, (grad_loss, grad_lse, grad_entropy), plan, needs)
    if made[0] is not None:
        made[0] = made[0].view(input.shape)
    if onto:
        made[1] = _beside_main_grad(weight)
    return [*(g if g is None else cast(g, t.dtype) for g, t in zip(made, (input, weight, bias))), d_row_factor]


def _scaled(gradients: Sequence[Optional[Tensor]], factor: Tensor, asked: Asked) -> list:
    """The saved gradients times the upstream one: in their place, unless float16 was saved as float32."""
    factor = cast(factor, torch.float32)
    results = [None if gradient is None or type(gradient) is Tensor and gradient.dtype == dtype
               else torch.empty_like(gradient, dtype=dtype) for gradient, dtype in zip(gradients, asked.plan.dtypes)]
    # A subclass of Tensor may have no memory that kernels could read.
    has_memory = [type(gradient) is Tensor for gradient in gradients]
    asked.scale([gradient if reads else None for gradient, reads in zip(gradients, has_memory)], factor, results)
    return [gradient if result is None else result if reads else torch.mul(gradient, factor, out=result)
            for gradient, reads, result in zip(gradients, has_memory, results)]


def _onto_main_grad(weight: Tensor):
    """An operation as `linear_backward` whose dW is added to weight.main_grad."""

    def operation(x, w, y, b, class_weight, lse, grad_loss, grad_lse, grad_entropy, *rest):
        options, (d_input, _, d_bias) = rest[:-3], rest[-3:]
        outputs = {}
        if d_input is not None:
            outputs["d_hidden"] = torch.empty(x.shape, dtype=d_input, device=x.device)
        outputs["d_weight"] = weight.main_grad
        if d_bias is not None:
            outputs["d_bias"] = torch.zeros(b.shape, dtype=d_bias, device=b.device)
        _ops.linear_backward_onto(x, w, y, b, class_weight, lse, grad_loss, grad_lse, grad_entropy, options, outputs)
        return list(outputs.values())

    return operation


def _beside_main_grad(weight: Tensor) -> Optional[Tensor]:
    """What autograd gets for a weight whose gradient is in main_grad: Megatron's hooks want a tensor, others none."""
    if not hasattr(weight, "grad_added_to_main_grad"):
        return None
    weight.grad_added_to_main_grad = True
    return torch.zeros_like(weight)


def _in_a_graph(which: str, shared: tuple):
    """The operation `which` (forward, backward) of a loss, or of a shard's.

    Args:
        shared: the group's name and dx_reduce; none: the vocabulary is not shared.
    """
    operations = torch.ops.tilewright
    if not shared:
        return operations.linear_forward.default if which == "forward" else operations.linear_backward.default
    operation = operations.sharded_forward.default if which == "forward" else operations.sharded_backward.default
    return lambda *arguments: operation(*arguments, *shared)


class CompiledLinearCrossEntropy(torch.autograd.Function):
    """The same for torch.compile: pure, without a choice at the time of the backward call.

    Results are those that there are: torch 2.6 does not compile a function with None among them.
    """

    @staticmethod
    def forward(ctx, input, weight, bias, target, class_weight, row_factor, plan: LinearPlan, shared: tuple):
        loss, extras, row_losses, gradients = _forward(
            _in_a_graph("forward", shared), input, weight, bias, target, class_weight, row_factor, plan)
        ctx.plan, ctx.shared = plan, shared
        if plan.saves_gradients:
            ctx.save_for_backward(*gradients, row_losses)
        else:
            ctx.save_for_backward(input, weight, bias, target, class_weight, row_factor, extras[0], row_losses)
        if plan.has_loss_alone:
            return loss
        ctx.mark_non_differentiable(*(extra for extra in extras[2:] if extra is not None))
        return loss, *(extra for extra, wanted in zip(extras, plan.wants) if wanted)

    @staticmethod
    def backward(ctx, grad_loss, *others):
        plan = ctx.plan
        row_losses = ctx.saved_tensors[-1]
        d_row_factor = None if row_losses is None or not ctx.needs_input_grad[5] else row_losses * grad_loss
        if plan.saves_gradients:
            made = [None if g is None else g.to(torch.float32) * grad_loss for g in ctx.saved_tensors[:3]]
        else:
            input, weight, bias, target, class_weight, row_factor, lse, _ = ctx.saved_tensors
            upstream = (grad_loss, *_of_lse_and_entropy(others, plan.wants))
            made = _backward(_in_a_graph("backward", ctx.shared), input, weight, bias, target, class_weight, row_factor,
                             lse, upstream, plan, plan.needs)
        made = [None if g is None else cast(g, dtype) for g, dtype in zip(made, plan.dtypes)]
        made = [g if needed else None for g, needed in zip(made, ctx.needs_input_grad)]
        return made[0], made[1], made[2], None, None, d_row_factor, None, None


def _of_lse_and_entropy(upstream: tuple, wants: tuple) -> tuple:
    """The upstream gradients of lse and entropy, among those of the extras that there are."""
    grad_lse = upstream[0] if wants[0] else None
    return grad_lse, upstream[int(wants[0])] if wants[1] else None


def spread(outputs, wants: tuple) -> tuple:
    """(loss, extras), None for what was not wanted, of what a compiled function returns."""
    loss, *extras = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    extras = iter(extras)
    return loss, *(next(extras) if wanted else None for wanted in wants)


class CrossEntropy(torch.autograd.Function):
    """The loss over logits N×V and its extras. Inputs: N×V, N, V."""

    @staticmethod
    def forward(ctx, logits, target, class_weight, options: tuple, wants: tuple, inplace_backward: bool):
        operation = _ops.operation("logits_forward", logits)
        results = iter(operation(logits, target, class_weight, *options, wants))
        loss = next(results)
        lse, entropy, argmax, correct = [next(results) if wanted else None for wanted in wants]
        ctx.set_materialize_grads(False)
        ctx.options, ctx.inplace_backward, ctx.is_spent = options, inplace_backward, False
        ctx.save_for_backward(logits, target, class_weight)
        ctx.mark_non_differentiable(*(t for t in (argmax, correct) if t is not None))
        return loss, lse, entropy, argmax, correct

    @staticmethod
    def backward(ctx, *upstream):
        upstream = upstream[:3]
        if all(gradient is None for gradient in upstream):
            return (None,) * 6
        logits, target, class_weight = ctx.saved_tensors
        with torch.no_grad():
            d_logits = _d_logits(ctx, logits, target, class_weight, upstream)
        d_logits, = _refuse_second_derivatives([d_logits], [*upstream, logits], "cross_entropy(input, target)")
        return d_logits, None, None, None, None, None


def _d_logits(ctx, logits, target, class_weight, upstream) -> Tensor:
    if not ctx.inplace_backward:
        return _ops.operation("logits_backward", logits)(logits, target, class_weight, *upstream, *ctx.options)
    if ctx.is_spent:
        raise RuntimeError("tilewright: inplace_backward put the gradient in the logits' place: expected one backward "
                           "call, found a second")
    ctx.is_spent = True
    d_logits = logits.detach()
    _ops.logits_backward_onto(d_logits, target, class_weight, *upstream, _calls.Options(*ctx.options), d_logits)
    return d_logits


class CompiledCrossEntropy(torch.autograd.Function):
    """The same for torch.compile."""

    @staticmethod
    def forward(ctx, logits, target, class_weight, options: tuple, wants: tuple):
        results = iter(torch.ops.tilewright.logits_forward.default(logits, target, class_weight, *options, wants))
        loss, extras = next(results), [next(results) if wanted else None for wanted in wants]
        ctx.options, ctx.wants = options, wants
        ctx.save_for_backward(logits, target, class_weight)
        ctx.mark_non_differentiable(*(extra for extra in extras[2:] if extra is not None))
        return loss, *(extra for extra in extras if extra is not None)

    @staticmethod
    def backward(ctx, grad_loss, *others):
        logits, target, class_weight = ctx.saved_tensors
        d_logits = torch.ops.tilewright.logits_backward.default(
            logits, target, class_weight, grad_loss, *_of_lse_and_entropy(others, ctx.wants), *ctx.options)
        return d_logits, None, None, None, None

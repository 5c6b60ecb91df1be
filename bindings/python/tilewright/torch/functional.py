"""The losses as functions. Each works on a CPU and on NVIDIA GPUs, under autograd, autocast and torch.compile."""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Optional, Tuple, TypedDict, Union, overload

import torch
from torch import Tensor

from . import _checks, _ops
from ._autograd import CompiledCrossEntropy, CompiledLinearCrossEntropy, CrossEntropy, apply_linear, spread
from ._plans import Asked, plan_of

if TYPE_CHECKING:  # a torch without torch.distributed has neither of its types
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh
    from typing_extensions import Unpack


class LossOutput(NamedTuple):
    """A loss and what else was asked for; None for what was not, of which type checkers do not warn.

    The values of the rows have target's shape (its last dimension less `shift`). Of ignored rows loss, lse and entropy
    are 0, correct is 0 and argmax is -1.
    """

    loss: Tensor
    """float32; no dimension, or target's shape with reduction='none'."""
    lse: Union[Tensor, Any] = None
    """float32: log Σ exp of the row's logits. Differentiable."""
    entropy: Union[Tensor, Any] = None
    """float32: of the row's probabilities, in nats. Differentiable."""
    correct: Union[Tensor, Any] = None
    """int32: 1 where the class with the largest logit is the target."""
    argmax: Union[Tensor, Any] = None
    """int32: the first class with the largest logit."""
    monitored: Union[Tensor, Any] = None
    """float32, (6,), of the rows that are not ignored, or 0: the largest logit; the means of the 2-norm of a row's
    logits, of entropy, of lse² and of lse; the share of rows that are correct. Has no gradient."""


class LossOptions(TypedDict, total=False):
    """For type checkers: the keywords of both losses, without return_*, by which what is returned changes."""

    reduction: str
    ignore_index: Optional[int]
    label_smoothing: float
    z_loss: float
    logit_scale: float
    softcap: Optional[float]


class LinearLossOptions(LossOptions, total=False):
    """And those of `linear_cross_entropy` that a module takes, too."""

    margin: Optional[Union[float, Tuple[float, float]]]
    shift: int
    row_weight: Optional[Tensor]
    objective: str
    workspace_limit: Optional[int]
    quiet_zeros: bool
    main_grad: bool
    configuration: Optional[str]
    group: Optional[Union["ProcessGroup", "DeviceMesh"]]
    dx_reduce: str


class _LinearKeywords(LinearLossOptions, total=False):
    linear_bias: Optional[Tensor]
    weight: Optional[Tensor]


class _Keywords(LossOptions, total=False):
    inplace_backward: bool


@overload
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, return_lse: Literal[False] = ...,
    return_entropy: Literal[False] = ..., return_correct: Literal[False] = ..., return_argmax: Literal[False] = ...,
    return_monitored: Literal[False] = ..., **keywords: "Unpack[_LinearKeywords]") -> Tensor: ...


@overload
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, return_lse: bool = ..., return_entropy: bool = ...,
    return_correct: bool = ..., return_argmax: bool = ..., return_monitored: bool = ...,
    **keywords: "Unpack[_LinearKeywords]") -> LossOutput: ...


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Optional[Tensor] = None,
    weight: Optional[Tensor] = None,
    reduction: str = "mean",
    ignore_index: Optional[int] = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    logit_scale: float = 1.0,
    softcap: Optional[float] = None,
    margin: Optional[Union[float, Tuple[float, float]]] = None,
    shift: int = 0,
    row_weight: Optional[Tensor] = None,
    return_lse: bool = False,
    return_entropy: bool = False,
    return_correct: bool = False,
    return_argmax: bool = False,
    return_monitored: bool = False,
    objective: str = "log_prob",
    workspace_limit: Optional[int] = None,
    quiet_zeros: bool = True,
    main_grad: bool = False,
    configuration: Optional[str] = None,
    group: Optional[Union["ProcessGroup", "DeviceMesh"]] = None,
    dx_reduce: str = "all_reduce",
) -> Union[Tensor, LossOutput]:
    """Cross entropy of the logits input·linear_weightᵀ + linear_bias, which never are in memory.

    With logits t, z = softcap(logit_scale·t), class weights u and smoothing A, a row's loss is
    (1 − A)·u_y·(lse − z_y) + A/V·Σ_c u_c·(lse − z_c) + z_loss·lse². A mean divides the first two by Σ u_y, and the last
    by the number of rows that are not ignored; where there are none, the loss is 0. Two runs give the same bits.

    Args:
        input: (..., H), float32, bfloat16 or float16. A copy is made if its last dimension is not contiguous.
        linear_weight: (V, H), of input's type; under autocast any type: both are cast, the gradients are not.
        target: (...), class numbers of an integer type, 0 … V-1 or ignore_index.
        linear_bias: (V,).
        weight: (V,), not negative: the weights of the classes. Has no gradient.
        reduction: 'mean', 'sum' or 'none'.
        ignore_index: target of rows that take no part; they need not be a class. None: -100.
        label_smoothing: A, 0 … 1.
        z_loss: factor of lse², 0 or more.
        logit_scale: 1 / temperature; not 0.
        softcap: C of C·tanh(z / C); None or 0: none.
        margin: large margin cosine loss: z = scale·(cos(x, w_j) − margin·[j = y]); a number, or (margin, scale).
        shift: row i is compared with the target `shift` places on along the last dimension; the last ones take no part,
            and values of rows come without them. 1: a language model whose labels are its inputs.
        row_weight: (...) or, with a shift, its last dimension less that: factor of each row's loss; differentiable. The
            divisor of a mean does not change.
        return_lse, return_entropy, return_correct, return_argmax: return a LossOutput with these values of the rows.
        return_monitored: return a LossOutput with what is monitored of all rows.
        objective: 'prob': a row's loss is −p_y, not −log p_y (then no other term goes with it).
        workspace_limit: bytes of device memory beside inputs and outputs; None: no limit.
        quiet_zeros: gradients of bfloat16 take probabilities below 2^-30 as 0, which is faster.
        main_grad: dW is added to linear_weight.main_grad, (V, H), float32, during the backward call, and not to .grad.
            Where the weight has the attribute grad_added_to_main_grad (Megatron-LM), it becomes true, and autograd gets
            zeros, which leaves the gradient of a tied embedding right. Makes four products of three.
        configuration: tiles, chunks and slices as text, as `prepared_calls()` says it of a call with such shapes; None:
            the one that was tuned on this machine, or planned. Text of a call that made gradients is for calls that
            make some, other text for those that make none; the others are planned.
        group: the torch.distributed.ProcessGroup, or DeviceMesh of one dimension (mesh["tp"]), whose ranks share the
            vocabulary (tensor parallelism). linear_weight, linear_bias and weight have this rank's classes (one or
            more, ranks may have different numbers; a DTensor will do that is sharded by its classes over the group, and
            over nothing else), target numbers the classes of all ranks in their order, and every rank calls this with
            the same rows and options, and gets the same bits. Three products, as without a group; three numbers of a
            row are gathered, more where options need them. Ranks may want different gradients. With main_grad and
            'none', and with gradients of lse or entropy, the backward call gathers, too, and every rank makes it, also
            one that wants no gradient: its loss has a backward call like the others' (not in a graph of torch.compile,
            where every rank has to want some; nor does a graph take a DTensor, or row_weight beside class weights). The
            first call with a shape compares the ranks' options and schedules, and waits for that.
        dx_reduce: with a group: 'all_reduce': input's gradient is added up over the ranks. 'reduce_scatter': input is
            this rank's equal part of the rows (sequence parallelism), of which all are gathered, and gets its part of
            the sum. Both are made on every rank, whichever inputs want a gradient (no one asks the other ranks), unless
            torch's grad mode is off. 'none': input's gradient is this rank's part of the sum, made where it is wanted;
            say so where no rank's input wants one. The sum is a collective of torch's beside dW's product: it is
            issued before that product and waited for after it; NCCL has a stream of its own for a group's collectives.

    Returns:
        The loss: float32 whatever the inputs' type, () or, with 'none', target's shape; where a return_* is true, a
        LossOutput. A type checker, which may not know a flag's value, then takes it for true.

    Raises:
        tilewright.UserError (a ValueError): a shape, type or option that does not fit; on a CPU a target that is no
            class. On a GPU the latter is raised by a later call, or by `tilewright.torch.check()`.
    """
    if main_grad:
        _checks.check_main_grad(linear_weight)
    if isinstance(margin, list):
        margin = tuple(margin)
    if group is not None:
        from . import _parallel  # which a torch without torch.distributed cannot import

        loss, lse, entropy, correct, argmax, monitored = _parallel.linear_cross_entropy(
            group, dx_reduce, input, linear_weight, target, linear_bias=linear_bias, weight=weight, reduction=reduction,
            ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss, logit_scale=logit_scale,
            softcap=softcap, margin=margin, shift=shift, row_weight=row_weight,
            wants=(return_lse, return_entropy, return_argmax, return_correct, return_monitored),
            workspace_limit=workspace_limit, quiet_zeros=quiet_zeros, main_grad=main_grad, objective=objective,
            configuration=configuration)
        return _output(loss, lse, entropy, correct, argmax, target.shape, shift, reduction, monitored)
    tensors = (input, linear_weight, target, linear_bias, weight, row_weight)
    options = (reduction, ignore_index, label_smoothing, z_loss, logit_scale, softcap, margin, shift, workspace_limit,
               quiet_zeros, main_grad, objective, configuration, return_lse, return_entropy, return_argmax,
               return_correct, return_monitored)
    if torch.compiler.is_compiling():
        asked, plan = None, plan_of(tensors, *options)
    else:
        asked = _asked(tensors, options, shift)
        plan = asked.plan
    hidden, labels, row_factor = input, target, None
    if asked is None or not asked.is_direct:
        hidden = input if input.dim() == 2 else input.reshape(-1, input.shape[-1])
        labels = _checks.flat_target(target, shift, plan.options[1])
        if row_weight is not None:
            if row_weight.shape != target.shape:
                row_weight = torch.nn.functional.pad(row_weight, (0, shift))
            if reduction != "none":
                row_factor = _checks.row_factor(row_weight, labels, weight, plan.options)
    given = (hidden, linear_weight, linear_bias, labels, weight, row_factor)
    if asked is None:
        outputs = spread(CompiledLinearCrossEntropy.apply(*given, plan, ()), plan.wants)
    else:
        outputs = apply_linear(*given, asked)
    if asked is not None and plan.has_loss_alone:
        if reduction != "none":
            return outputs
        outputs = (outputs, None, None, None, None, None)
    loss, lse, entropy, argmax, correct, monitored = outputs
    if reduction == "none" and row_weight is not None:
        loss = loss * row_weight.reshape(-1)
    return _output(loss, lse, entropy, correct, argmax, target.shape, shift, reduction, monitored)


_known = {}  # what was asked, by everything that it depends on
_MOST_PLANS = 1024


def _fact(tensor: Optional[Tensor]):
    """What a plan depends on, of a tensor."""
    return None if tensor is None else (tensor.shape, tensor.stride(), tensor.dtype, tensor.device,
                                        tensor.requires_grad, type(tensor))


def _asked(tensors: tuple, options: tuple, shift: int) -> Asked:
    """What such arguments ask for, checked once: checks take longer than a launch."""
    x, w, y, bias, class_weight, row_weight = tensors
    key = (
        torch.is_grad_enabled(), torch._C._is_any_autocast_enabled() and _checks.autocast_type(x),
        x.is_cuda and _ops.allows_tf32(x), options,
        x.shape, x.stride(), x.dtype, x.device, x.requires_grad, type(x),  # as _fact, which takes as long as all three
        w.shape, w.stride(), w.dtype, w.device, w.requires_grad, type(w),
        y.shape, y.stride(), y.dtype, y.device, type(y),
        bias if bias is None else _fact(bias), class_weight if class_weight is None else _fact(class_weight),
        row_weight if row_weight is None else _fact(row_weight))
    asked = _known.get(key)
    if asked is None:
        plan = plan_of(tensors, *options)
        asked = Asked(plan, shift == 0 and _is_direct(tensors, plan.compute))
        if len(_known) >= _MOST_PLANS:
            _known.clear()
        _known[key] = asked
    return asked


def _is_direct(tensors: tuple, compute: torch.dtype) -> bool:
    """Whether the tensors are as kernels read them: no types to cast, no strides to copy."""
    input, linear_weight, target, linear_bias, weight, row_weight = tensors
    given = [tensor for tensor in tensors if tensor is not None]
    return (row_weight is None and _ops.is_plain(*given) and all(map(Tensor.is_contiguous, given))
            and input.dtype == linear_weight.dtype == compute and target.dtype in (torch.int32, torch.int64)
            and (linear_bias is None or linear_bias.dtype in (torch.float32, compute))
            and (weight is None or weight.dtype == torch.float32))


def _output(loss, lse, entropy, correct, argmax, shape, shift, reduction, monitored=None) -> Union[Tensor, LossOutput]:
    if reduction == "none":
        loss = _checks.rows_again(loss, shape, shift)
    if all(extra is None for extra in (lse, entropy, correct, argmax, monitored)):
        return loss
    of_rows = (_checks.rows_again(extra, shape, shift) for extra in (lse, entropy, correct, argmax))
    return LossOutput(loss, *of_rows, monitored)


@overload
def cross_entropy(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = ..., *, return_lse: Literal[False] = ...,
    return_entropy: Literal[False] = ..., return_correct: Literal[False] = ..., return_argmax: Literal[False] = ...,
    **keywords: "Unpack[_Keywords]") -> Tensor: ...


@overload
def cross_entropy(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = ..., *, return_lse: bool = ...,
    return_entropy: bool = ..., return_correct: bool = ..., return_argmax: bool = ...,
    **keywords: "Unpack[_Keywords]") -> LossOutput: ...


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    *,
    reduction: str = "mean",
    ignore_index: Optional[int] = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    logit_scale: float = 1.0,
    softcap: Optional[float] = None,
    return_lse: bool = False,
    return_entropy: bool = False,
    return_correct: bool = False,
    return_argmax: bool = False,
    inplace_backward: bool = False,
) -> Union[Tensor, LossOutput]:
    """Cross entropy over logits that are in memory.

    Args:
        input: (..., V), float32, bfloat16 or float16; the classes are the last dimension, also of more than two.
        target: (...), class numbers of an integer type, 0 … V-1 or ignore_index.
        weight: (V,), not negative: the weights of the classes.
        inplace_backward: the backward call puts the gradient in the logits' memory: no further N×V numbers. The logits
            must not be used afterwards, and there is one backward call.
        The others: as of `linear_cross_entropy`.

    Returns:
        The loss, float32; where a return_* is true, a LossOutput.

    Raises:
        tilewright.UserError: as `linear_cross_entropy`.
    """
    _checks.refuse_dtensor("input", input)
    _checks.expect(input.dim() >= 1 and input.dtype in _checks.FLOATS, "input",
                   "(..., V) of float32, bfloat16 or float16", f"{tuple(input.shape)} of {input.dtype}")
    _checks.expect(target.device == input.device, "target", f"input's device, {input.device}", target.device)
    _checks.check_target(target, input.shape[:-1], 0)
    _checks.check_class_weight(weight, input.shape[-1])
    options = _checks.loss_options(reduction, ignore_index, label_smoothing, z_loss, logit_scale, softcap)
    wants = (return_lse, return_entropy, return_argmax, return_correct)
    logits, labels = input.reshape(-1, input.shape[-1]), _checks.flat_target(target, 0, options[1])
    if torch.compiler.is_compiling():
        _checks.expect(not inplace_backward, "inplace_backward", "a call outside of torch.compile", "one inside")
        outputs = spread(CompiledCrossEntropy.apply(logits, labels, weight, options, wants), wants)
    else:
        _checks.expect(not inplace_backward or logits.is_contiguous(), "inplace_backward", "contiguous logits",
                       f"strides {input.stride()}")
        outputs = CrossEntropy.apply(logits, labels, weight, options, wants, inplace_backward)
    loss, lse, entropy, argmax, correct = outputs
    return _output(loss, lse, entropy, correct, argmax, target.shape, 0, reduction)


def selected_log_probs(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Optional[Tensor] = None,
    temperature: float = 1.0,
    softcap: Optional[float] = None,
    ignore_index: Optional[int] = -100,
    shift: int = 0,
    workspace_limit: Optional[int] = None,
    group: Optional[Union["ProcessGroup", "DeviceMesh"]] = None,
    dx_reduce: str = "all_reduce",
) -> Tuple[Tensor, Tensor]:
    """The log-probability of each row's target and the entropy of its probabilities, both differentiable (GRPO, PPO).

    Args:
        temperature: logits are divided by it; not 0.
        The others: as of `linear_cross_entropy`.

    Returns:
        (log-probabilities, entropies in nats): float32, target's shape (its last dimension less `shift`); of ignored
        rows 0.

    Raises:
        tilewright.UserError: as `linear_cross_entropy`.
    """
    temperature = _checks.number("temperature", temperature)
    _checks.expect(temperature != 0, "temperature", "a number that is not 0", temperature)
    output = linear_cross_entropy(
        input, linear_weight, target, linear_bias=linear_bias, reduction="none", ignore_index=ignore_index,
        logit_scale=1 / temperature, softcap=softcap, shift=shift, return_entropy=True,
        workspace_limit=workspace_limit, group=group, dx_reduce=dx_reduce)
    return -output.loss, output.entropy

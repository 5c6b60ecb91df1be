"""What arguments of `linear_cross_entropy` ask for, and what calls with the same kind of them have in common."""

import itertools
import weakref
from typing import NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .._library import OBJECTIVES, REDUCTIONS
from . import _calls, _checks, _ops


class LinearPlan(NamedTuple):
    """What a call is asked for, beside its tensors."""

    options: tuple  # of Options, reduction to configuration
    compute: torch.dtype  # of the products: input's and weight's type, or autocast's
    wants: Tuple[bool, ...]  # lse, entropy, argmax, correct, monitored
    needs: Tuple[bool, bool, bool]  # gradients: input, weight, bias
    saves_gradients: bool
    main_grad: bool
    dtypes: tuple  # of input, weight and bias

    @property
    def has_loss_alone(self) -> bool:
        return not any(self.wants)

    def stored(self) -> tuple:
        """Which of (lse, entropy, argmax, correct, monitored) a forward call stores: a backward call may need lse."""
        return self.wants[0] or any(self.needs), *self.wants[1:]


def plan_of(tensors, reduction, ignore_index, label_smoothing, z_loss, logit_scale, softcap, margin, shift,
            workspace_limit, quiet_zeros, main_grad, objective, configuration, *wants,
            rows: Optional[torch.Size] = None) -> LinearPlan:
    """Checks the arguments of `linear_cross_entropy`; what they ask for.

    Args:
        rows: shape that target has to have; None: input's, without its last dimension.
    """
    input, linear_weight, target, linear_bias, weight, row_weight = tensors
    _checks.check_linear(input, linear_weight, linear_bias, target, (("weight", weight), ("row_weight", row_weight)))
    _checks.check_target(target, input.shape[:-1] if rows is None else rows, shift)
    _checks.check_class_weight(weight, linear_weight.shape[0])
    options = _checks.loss_options(reduction, ignore_index, label_smoothing, z_loss, logit_scale, softcap)
    _checks.expect(objective in OBJECTIVES, "objective", "'log_prob' or 'prob'", repr(objective))
    if margin is not None:
        margin = (float(margin), 1.0) if isinstance(margin, (int, float)) else (float(margin[0]), float(margin[1]))
    limit = 0 if workspace_limit is None else int(workspace_limit)
    _checks.expect(workspace_limit is None or limit > 0, "workspace_limit", "None or more than 0 bytes",
                   workspace_limit)
    _checks.expect(row_weight is None or row_weight.shape in (target.shape, _shifted(target.shape, shift)),
                   "row_weight", f"shape {tuple(_shifted(target.shape, shift))}",
                   None if row_weight is None else tuple(row_weight.shape))
    grad = torch.is_grad_enabled()
    trained = (input, linear_weight, linear_bias)
    needs = tuple(grad and tensor is not None and tensor.requires_grad for tensor in trained)
    return LinearPlan(
        options=(*options, margin, limit, quiet_zeros, OBJECTIVES[objective], configuration),
        compute=_checks.compute_type(input, linear_weight), wants=wants, needs=needs,
        saves_gradients=saves_gradients(needs, options[0], main_grad, wants), main_grad=main_grad,
        dtypes=(input.dtype, linear_weight.dtype, None if linear_bias is None else linear_bias.dtype))


def saves_gradients(needs: tuple, reduction: int, main_grad: bool, wants: tuple) -> bool:
    """Whether the forward call makes the gradients."""
    if torch.compiler.is_compiling() and (wants[0] or wants[1]):
        return False  # the graph cannot tell whether a gradient arrives for lse or entropy
    return any(needs) and reduction != REDUCTIONS["none"] and not main_grad


def _shifted(shape: torch.Size, shift: int) -> torch.Size:
    return torch.Size((*shape[:-1], shape[-1] - shift)) if shift else shape


class Computed(NamedTuple):
    """The matrices as the products take them, and a bias of their type or float32."""

    input: Tensor
    weight: Tensor
    bias: Optional[Tensor]


def cast(tensor: Optional[Tensor], dtype: Optional[torch.dtype]) -> Optional[Tensor]:
    return tensor if tensor is None or tensor.dtype == dtype else tensor.to(dtype)


def computed_of(input, weight, bias, compute) -> Computed:
    if bias is not None and bias.dtype != torch.float32:
        bias = cast(bias, compute)
    return Computed(cast(input, compute), cast(weight, compute), bias)


def made_types(given, computed: Computed, needs, saved: bool) -> list:
    """The types in which gradients are made: each its tensor's, if kernels can and it loses nothing, else float32."""
    types = []
    for tensor, product, needed in zip(given, computed, needs):
        if not needed:
            types.append(None)
        elif tensor.dtype != product.dtype or (saved and tensor.dtype == torch.float16):
            types.append(torch.float32)
        else:
            types.append(tensor.dtype)
    return types


def saved_types(given, computed: Computed, plan: LinearPlan) -> list:
    return made_types(given, computed, plan.needs if plan.saves_gradients else (False, False, False), saved=True)


class Asked:
    """A plan, for calls outside of torch.compile, and what they need besides.

    Where their tensors are already as kernels read them (is_direct), that is their prepared call: nothing is looked up
    and nothing is copied, as all that such a call takes beside its launches is Python's time.
    """

    __slots__ = ("plan", "is_direct", "_device", "_entry", "_places", "_scalings")

    def __init__(self, plan: LinearPlan, is_direct: bool):
        self.plan, self.is_direct = plan, is_direct
        self._entry = _no_entry
        self._scalings = {}

    def _prepare(self, input, weight, bias, target, class_weight) -> _calls.Entry:
        plan = self.plan
        stored, types = plan.stored(), saved_types((input, weight, bias), Computed(input, weight, bias), plan)
        self._device, entry, _ = _ops.linear_entry(
            input.reshape(-1, input.shape[-1]), weight, target.reshape(-1), bias, class_weight, None, *plan.options,
            stored, *types)
        count = itertools.count()
        self._places = [next(count) if there else None for there in (True, *stored, *(t is not None for t in types))]
        self._entry = weakref.ref(entry)
        return entry

    def run(self, input, weight, bias, target, class_weight) -> Optional[list]:
        """Loss, lse, entropy, argmax, correct, monitored and the gradients of input, weight and bias, None: not there.

        None if this call is none for the prepared one: its matrices are not aligned, or a mode of torch watches.
        """
        if (input.data_ptr() | weight.data_ptr()) & 15 or torch._C._len_torch_dispatch_stack():
            return None
        entry = self._entry() or self._prepare(input, weight, bias, target, class_weight)
        entry.was_used = True
        inputs = [input, weight, target]
        if bias is not None:
            inputs.append(bias)
        if class_weight is not None:
            inputs.append(class_weight)
        self._device.poll()
        made = entry.run(inputs, self._device, True)
        made = [None if place is None else made[place] for place in self._places]
        if made[6] is not None and input.dim() != 2:
            made[6] = made[6].view(input.shape)
        return made

    def scale(self, gradients: Sequence[Optional[Tensor]], factor: Tensor, results: Sequence[Optional[Tensor]]) -> None:
        """result = gradient * factor for each. No host reads the factor.

        Args:
            gradients: of input, weight and bias; None: nothing to scale. Two matrices of one type take one launch.
            factor: one float32.
            results: tensors of another type than their gradients, which are float32; None: the gradient's place, where
                the kernel returns at once if the factor is 1.
        """
        groups = [(which,) for which, gradient in enumerate(gradients) if gradient is not None]
        d_input, d_weight, _ = gradients
        are_in_place = results[0] is None and results[1] is None
        if groups[:2] == [(0,), (1,)] and are_in_place and d_input.dim() > 1 and d_input.dtype == d_weight.dtype:
            groups[:2] = [(0, 1)]
        for group in groups:
            scaled, result = [gradients[which] for which in group], results[group[0]]
            scaling = self._scalings.get(group)
            if scaling is None:
                scaling = self._scalings[group] = _calls.Scaling(scaled, factor, result)
            scaling.run(scaled, factor, result)


def _no_entry() -> None:
    """A reference to a prepared call that is gone."""

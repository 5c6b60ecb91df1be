"""`linear_cross_entropy` with a group: what each rank computes, what the ranks tell each other, what becomes of it."""

from typing import NamedTuple, Optional

import torch
import torch.distributed
from torch import Tensor

from . import _vocabulary, functional
from ._vocabulary import Labels, Shard


class Terms(NamedTuple):
    """The options that the ranks apply to the merged values of the rows."""

    reduction: str
    label_smoothing: float
    z_loss: float
    class_weight: Optional[Tensor]  # of this rank's classes


def _row_losses(loss, lse, linear, labels: Labels, shard: Shard, terms: Terms):
    """(the rows' losses without z-loss, their z-losses, the divisor's weight of each row)."""
    weights, total = labels.is_valid.float(), float(shard.classes)
    if terms.class_weight is not None:
        weights, total = _vocabulary.class_weights_of(terms.class_weight, labels, shard)
    main = (1 - terms.label_smoothing) * weights * loss
    if linear is not None:
        spread = torch.where(labels.is_valid, total * lse - linear, 0)
        main = main + terms.label_smoothing / shard.classes * spread
    return main, terms.z_loss * lse * lse if terms.z_loss else None, weights


def _reduced(main, extra, weights, valid, row_weight, reduction: str) -> Tensor:
    """The divisors are those of `linear_cross_entropy`; where they are 0, so is the loss."""
    if row_weight is not None:
        main, extra = main * row_weight, None if extra is None else extra * row_weight
    if reduction == "none":
        return main if extra is None else main + extra
    if reduction == "mean":
        divisor = weights.sum()
        main = main * torch.where(divisor > 0, 1 / divisor, 0)
        extra = None if extra is None else extra / valid.sum().clamp_min(1)
    return main.sum() if extra is None else main.sum() + extra.sum()


def _merged(call, rows: Tensor, weight: Tensor, bias: Optional[Tensor], target: Tensor, shard: Shard, terms: Terms,
            ignore_index: int, row_weight: Optional[Tensor], logit_scale: float, wants) -> tuple:
    """(loss, lse, entropy, correct, argmax) of N rows; the same bits on every rank.

    Args:
        call: of (labels, ignore index): the LossOutput of this rank's classes, losses of the rows.
        rows: N×H. weight: V_r×H. bias: V_r. target: N, class numbers of all ranks' classes. row_weight: N.
        wants: of lse, entropy, argmax, correct.
    """
    labels = _vocabulary.labels_of(target, shard, ignore_index)
    own = call(labels.local, _vocabulary.NOT_A_LABEL)
    linear = None
    if terms.label_smoothing:
        linear = _vocabulary.weighted_logit_sum(rows, weight, bias, terms.class_weight, logit_scale)
    loss, lse, entropy, linear = _vocabulary.merge(own.loss, own.lse, own.entropy, linear, labels, shard)
    main, extra, weights = _row_losses(loss, lse, linear, labels, shard, terms)
    argmax = correct = None
    if wants[2] or wants[3]:
        logits = _vocabulary.logits_at(rows, weight, bias, own.argmax, logit_scale)
        argmax = _vocabulary.merge_best(logits, own.argmax, labels, shard)
        correct = (labels.is_valid & (argmax == target)).to(torch.int32)
    return (_reduced(main, extra, weights, labels.is_valid, row_weight, terms.reduction), lse if wants[0] else None,
            entropy, correct if wants[3] else None, argmax if wants[2] else None)


def _local(name: str, tensor: Optional[Tensor], group) -> Optional[Tensor]:
    """This rank's classes of a DTensor that is sharded over the group's mesh by its first dimension."""
    placements = getattr(tensor, "placements", None)
    if placements is None:
        return tensor
    is_shard = len(placements) == 1 and placements[0].is_shard(0) and tensor.device_mesh.get_group() == group
    functional._expect(is_shard, name, "a DTensor sharded by its classes over the group's mesh alone",
           f"placements {placements} of {tensor.device_mesh}")
    return tensor.to_local()


def _check(dx_reduce, label_smoothing, softcap, margin, main_grad, rows: int, labels: int, ranks: int) -> None:
    functional._expect(not torch.compiler.is_compiling(), "group", "a call outside of torch.compile (torch.compiler.disable)",
                       "one inside")
    functional._expect(dx_reduce in _vocabulary.REDUCTIONS, "dx_reduce", f"one of {_vocabulary.REDUCTIONS}", repr(dx_reduce))
    functional._expect(margin is None, "margin", "none with a group: the rank of a row's label alone knows the margin", margin)
    functional._expect(not (label_smoothing and softcap), "label_smoothing", "no softcap beside it with a group", softcap)
    functional._expect(not (main_grad and label_smoothing), "main_grad", "no label_smoothing beside it with a group",
           label_smoothing)
    parts = ranks if dx_reduce == "reduce_scatter" else 1
    functional._expect(rows * parts == labels, "input", f"{labels // parts} rows, for {labels} labels of {parts} ranks", rows)


def linear_cross_entropy(group, dx_reduce: str, input, linear_weight, target, *, linear_bias, weight, reduction,
                         ignore_index, label_smoothing, z_loss, logit_scale, softcap, margin, shift, row_weight, wants,
                         workspace_limit, quiet_zeros, main_grad):
    """(loss, lse, entropy, correct, argmax) of the N rows of target; see `functional.linear_cross_entropy`."""
    functional._expect(isinstance(group, torch.distributed.ProcessGroup), "group", "a torch.distributed.ProcessGroup",
                       group)
    linear_weight, linear_bias, weight = (_local(name, t, group) for name, t in (
        ("linear_weight", linear_weight), ("linear_bias", linear_bias), ("weight", weight)))
    hidden = input.reshape(-1, input.shape[-1])
    _check(dx_reduce, label_smoothing, softcap, margin, main_grad, hidden.shape[0], target.numel(),
           torch.distributed.get_world_size(group))
    ignore_index = -100 if ignore_index is None else int(ignore_index)
    facts = (*hidden.shape, str(hidden.dtype), hidden.requires_grad and torch.is_grad_enabled(), dx_reduce, reduction,
             label_smoothing, z_loss, logit_scale, softcap, weight is not None, wants)
    shard = _vocabulary.shard_of(group, linear_weight.shape[0], facts)
    rows = _vocabulary.rows_of(hidden, dx_reduce, group)

    def call(labels, not_a_label):
        return functional.linear_cross_entropy(
            rows, linear_weight, labels, linear_bias=linear_bias, reduction="none", ignore_index=not_a_label,
            logit_scale=logit_scale, softcap=softcap, return_lse=True, return_entropy=wants[1],
            return_argmax=wants[2] or wants[3], workspace_limit=workspace_limit, quiet_zeros=quiet_zeros,
            main_grad=main_grad)

    terms = Terms(reduction, label_smoothing, z_loss, weight)
    return _merged(call, rows, linear_weight, linear_bias, functional._flat_target(target, shift, ignore_index), shard,
                   terms, ignore_index, None if row_weight is None else row_weight.reshape(-1), logit_scale, wants)

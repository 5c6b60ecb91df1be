"""Linear + cross entropy whose classes are shared among processes, by torch.distributed.

Rank r holds the classes [first_r, first_r + V_r). With l_r = log Σ exp and H_r = entropy over rank r's classes, y's rank o:

  lse = log Σ_r exp l_r            P_r = exp(l_r − lse), the probability of rank r's classes
  loss = lse − z_y = (l_o − z_y) + log Σ_r exp(l_r − l_o)
  entropy = Σ_r P_r (H_r + lse − l_r)

A row whose label lies on another rank is given label 0 here, and its loss, of which nothing is asked, is not used: the
gradient of l_r has no part of the label. So each rank makes its own losses, l_r and H_r with one call of the library,
one gather of a few numbers a row follows, and every rank computes the same from the same numbers. Backward, l_r's
gradient is P_r times lse's, and dX is added up over the ranks. Four products in all: the gradients wait for lse.
"""

import functools
import os
from typing import NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from .._errors import UserError

REDUCTIONS = ("all_reduce", "reduce_scatter", "none")
NOT_A_LABEL = -(1 << 62)  # the local ignore index: no shifted label can be equal to it
_ROWS_AT_ONCE = 1024


class Shard(NamedTuple):
    """The classes of this rank among those of all."""

    group: dist.ProcessGroup
    rank: int
    sizes: Tuple[int, ...]

    @property
    def first(self) -> int:
        return sum(self.sizes[:self.rank])

    @property
    def classes(self) -> int:
        return sum(self.sizes)


_agreed = {}


def shard_of(group: dist.ProcessGroup, classes: int, facts: tuple) -> Shard:
    """This rank's shard. The first call with such classes and facts compares them over the ranks, and waits for it; with
    the environment's TILEWRIGHT_CHECK_RANKS=1 every call does, which also finds ranks that call in different orders.

    Args:
        classes: of this rank; ranks may differ.
        facts: what has to be the same on all ranks, or their collectives would not fit together.

    Raises:
        tilewright.UserError: on every rank, if the facts differ; it names both ranks.
    """
    key = (group, classes, facts)
    if key not in _agreed or os.environ.get("TILEWRIGHT_CHECK_RANKS") == "1":
        everyone = [None] * dist.get_world_size(group)
        dist.all_gather_object(everyone, (classes, facts), group=group)
        for rank, (_, others) in enumerate(everyone):
            if others != everyone[0][1]:
                raise UserError(f"group: expected the same call on all ranks, found {everyone[0][1]} on rank 0 and "
                                f"{others} on rank {rank}")
        _agreed[key] = Shard(group, dist.get_rank(group), tuple(size for size, _ in everyone))
    return _agreed[key]


def _gather(values: Tensor, group) -> Tensor:
    """R×…: the values of all ranks."""
    parts = values.new_empty((dist.get_world_size(group), *values.shape))
    dist.all_gather(list(parts.unbind(0)), values.contiguous(), group=group)
    return parts


class _Replicated(torch.autograd.Function):
    """Rows that every rank has; their gradient is the sum of all ranks'."""

    @staticmethod
    def forward(ctx, rows, group):
        ctx.group = group
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class _Gathered(torch.autograd.Function):
    """All rows, of which each rank has an equal part; a part's gradient is the sum of all ranks'."""

    @staticmethod
    def forward(ctx, rows, group):
        ctx.group = group
        return _gather(rows, group).flatten(0, 1)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        ranks, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        if dist.get_backend(ctx.group) == "gloo":  # which has no reduce-scatter in older versions of torch
            gradient = gradient.clone()
            dist.all_reduce(gradient, group=ctx.group)
            return gradient.chunk(ranks)[rank], None
        part = torch.empty_like(gradient[:gradient.shape[0] // ranks])
        dist.reduce_scatter_tensor(part, gradient, group=ctx.group)
        return part, None


def rows_of(input: Tensor, dx_reduce: str, group) -> Tensor:
    """All rows of the input, N×H, as a shard's call takes them."""
    if dx_reduce == "none":
        return input
    return (_Replicated if dx_reduce == "all_reduce" else _Gathered).apply(input, group)


class _ClassSum(torch.autograd.Function):
    """Σ_j u_j w_j in float32: H numbers of W, V×H; u: V, or None for ones."""

    @staticmethod
    def forward(ctx, weight, factors):
        ctx.save_for_backward(weight, factors)
        if factors is None:
            return weight.sum(0, dtype=torch.float32)
        parts = zip(weight.split(_ROWS_AT_ONCE), factors.float().split(_ROWS_AT_ONCE))
        return sum((part_of_factors @ part.float() for part, part_of_factors in parts))

    @staticmethod
    def backward(ctx, gradient):
        weight, factors = ctx.saved_tensors
        gradient = gradient.to(weight.dtype)
        if factors is None:
            return gradient.expand(weight.shape), None
        return torch.outer(factors.to(weight.dtype), gradient), None


def weighted_logit_sum(rows, weight, bias, class_weight, logit_scale) -> Tensor:
    """N, float32: Σ_j u_j z_ij over this rank's classes, of logits without a softcap."""
    sums = rows.float() @ _ClassSum.apply(weight, class_weight)
    if bias is not None:
        sums = sums + (bias.float() if class_weight is None else bias.float() * class_weight.float()).sum()
    return logit_scale * sums


@torch.no_grad()
def logits_at(rows, weight, bias, classes, logit_scale) -> Tensor:
    """N, float32: each row's logit of one class, which grows as the logit with a softcap does."""
    classes = classes.clamp_min(0).long()
    parts = [(x.float() * weight[j].float()).sum(1)
             for x, j in zip(rows.split(_ROWS_AT_ONCE), classes.split(_ROWS_AT_ONCE))]
    logits = torch.cat(parts) if parts else rows.new_empty(0, dtype=torch.float32)
    return logit_scale * (logits if bias is None else logits + bias[classes].float())


class Labels(NamedTuple):
    """N labels as this rank sees them."""

    local: Tensor  # class numbers of this shard; 0 where the label is another rank's, what is no class unchanged
    is_local: Tensor
    owner: Tensor  # rank
    is_valid: Tensor  # not ignored


@functools.lru_cache(maxsize=64)
def _ends(sizes: Tuple[int, ...], device: torch.device) -> Tensor:
    """Where each rank's classes end. Kept, as its way to a GPU would be waited for in every call."""
    return torch.tensor(sizes, device=device).cumsum(0)


def labels_of(target: Tensor, shard: Shard, ignore_index: int) -> Labels:
    ends = _ends(shard.sizes, target.device)
    is_valid = target != ignore_index
    is_class = (target >= 0) & (target < shard.classes)
    is_local = is_valid & (target >= shard.first) & (target < shard.first + shard.sizes[shard.rank])
    owner = torch.bucketize(target, ends, right=True).clamp_max(len(shard.sizes) - 1)
    local = torch.where(is_local, target - shard.first, torch.where(is_class, 0, target))
    return Labels(torch.where(is_valid, local, NOT_A_LABEL), is_local, owner, is_valid)


class _Merge(torch.autograd.Function):
    """Of the ranks' losses, lse, entropies and linear sums: the rows' own. Inputs N each; float32."""

    @staticmethod
    def forward(ctx, loss, lse, entropy, linear, labels: Labels, shard: Shard):
        columns = [lse, torch.where(labels.is_local, loss, 0), *(t for t in (entropy, linear) if t is not None)]
        everyone = _gather(torch.stack(columns), shard.group)
        of_lse = everyone[:, 0]
        own = of_lse.gather(0, labels.owner[None])[0]
        others = torch.arange(len(shard.sizes), device=own.device)[:, None] != labels.owner
        whole = of_lse.logsumexp(0)
        far = whole - own
        near = torch.log1p((others * (of_lse - own).clamp_max(20).exp()).sum(0))  # keeps a small loss's digits
        whole_loss = everyone[:, 1].sum(0) + torch.where(far < 10, near, far)
        share = (of_lse - whole).exp()
        whole_entropy = None if entropy is None else (share * (everyone[:, 2] + whole - of_lse)).sum(0)
        whole_linear = None if linear is None else everyone[:, -1].sum(0)
        ctx.save_for_backward(labels.is_local, labels.is_valid, share[shard.rank], lse, whole, entropy, whole_entropy)
        ctx.set_materialize_grads(False)
        mask = labels.is_valid
        return tuple(None if t is None else torch.where(mask, t, 0)
                     for t in (whole_loss, whole, whole_entropy, whole_linear))

    @staticmethod
    def backward(ctx, d_loss, d_lse, d_entropy, d_linear):
        is_local, is_valid, share, lse, whole, entropy, whole_entropy = ctx.saved_tensors
        zero = torch.zeros_like(lse)
        d_loss, d_lse = (zero if d is None else torch.where(is_valid, d, 0) for d in (d_loss, d_lse))
        to_loss = torch.where(is_local, d_loss, 0)
        to_lse = share * (d_loss + d_lse) - to_loss  # of its own label's rows loss has −z_y = loss − lse
        to_entropy = None
        if d_entropy is not None:
            d_entropy = torch.where(is_valid, d_entropy, 0)
            to_entropy = share * d_entropy
            to_lse = to_lse + to_entropy * (whole - whole_entropy - lse + entropy)
        return to_loss, to_lse, to_entropy, d_linear, None, None


@torch.no_grad()
def merge_best(logit: Tensor, argmax: Tensor, labels: Labels, shard: Shard) -> Tensor:
    """N, int32: the first class of all ranks with the largest logit; -1 of ignored rows."""
    everyone = _gather(torch.stack([logit.double(), argmax.double() + shard.first]), shard.group)
    ranks = len(shard.sizes)
    is_best = everyone[:, 0] == everyone[:, 0].max(0).values
    first = (is_best * torch.arange(ranks, 0, -1, device=logit.device)[:, None]).argmax(0)
    best = everyone[:, 1].gather(0, first[None])[0].to(torch.int32)
    return torch.where(labels.is_valid, best, -1)


@torch.no_grad()
def class_weights_of(class_weight: Tensor, labels: Labels, shard: Shard) -> Tuple[Tensor, Tensor]:
    """(N: the weight of each row's label, 0 of ignored rows; Σ of all classes' weights), float32."""
    mine = torch.where(labels.is_local, class_weight.float()[torch.where(labels.is_local, labels.local, 0)], 0)
    both = torch.cat([mine, class_weight.float().sum()[None]])
    dist.all_reduce(both, group=shard.group)
    return both[:-1], both[-1]


def merge(loss, lse, entropy, linear, labels: Labels, shard: Shard) -> Tuple[Optional[Tensor], ...]:
    """The rows' loss, lse, entropy and linear sum, N each, of this rank's own and the other ranks'; differentiable."""
    return _Merge.apply(loss, lse, entropy, linear, labels, shard)

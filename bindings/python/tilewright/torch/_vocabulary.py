"""A vocabulary that is shared among processes: who has which classes, and what the ranks tell each other.

Rank r holds the classes [first_r, first_r + V_r). The library computes (tilewright.h: tw_sharded_linear_cross_entropy),
torch.distributed moves what crosses between ranks; see _sharded.py.
"""

import os
import weakref
from typing import NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from .._errors import UserError

REDUCTIONS = ("all_reduce", "reduce_scatter", "none")


class Shard(NamedTuple):
    """The classes of this rank among those of all.

    Shards are kept for later calls, and they do not keep their group alive. A group's threads end when nothing refers
    to it any more; threads that live on until the interpreter ends can abort the process there.
    """

    group_reference: weakref.ref
    rank: int
    sizes: Tuple[int, ...]

    @property
    def group(self) -> dist.ProcessGroup:
        group = self.group_reference()
        if group is None:
            raise UserError("group: expected a process group that exists until the backward call is done, found one "
                            "that was destroyed")
        return group

    @property
    def first(self) -> int:
        return sum(self.sizes[:self.rank])

    @property
    def classes(self) -> int:
        return sum(self.sizes)

    @property
    def ranks(self) -> int:
        return len(self.sizes)


def _compares_always() -> bool:
    return os.environ.get("TILEWRIGHT_CHECK_RANKS") == "1"


def _expect_equal(everyone: list) -> None:
    """Of what each rank has: a dictionary of the same names."""
    first = everyone[0]
    for rank, other in enumerate(everyone):
        for name in first:
            if other[name] != first[name]:
                raise UserError(f"group: expected the same {name} on all ranks, found {first[name]!r} on rank 0 and "
                                f"{other[name]!r} on rank {rank}")


def _of_all_ranks(value: object, group: dist.ProcessGroup) -> list:
    everyone = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, value, group=group)
    return everyone


_agreed = weakref.WeakKeyDictionary()  # by group: what its ranks were found to agree on


def shard_of(group: dist.ProcessGroup, classes: int, facts: dict) -> Shard:
    """This rank's shard. The first call with such classes and facts compares them over the ranks, and waits for it.
    With the environment's TILEWRIGHT_CHECK_RANKS=1 every call does, which also finds ranks that call in other orders.

    Args:
        classes: of this rank; ranks may differ.
        facts: what has to be the same on all ranks, by its name, or their collectives would not fit together.

    Raises:
        tilewright.UserError: on every rank, if the facts differ; it names both ranks and what they have. If a rank has
            no class.
    """
    agreed = _agreed.setdefault(group, {})
    key = (classes, *facts.values())
    if key not in agreed or _compares_always():
        everyone = _of_all_ranks((classes, facts), group)
        _expect_equal([others for _, others in everyone])
        sizes = tuple(size for size, _ in everyone)
        if min(sizes) < 1:
            raise UserError(f"group: expected 1 class or more on every rank, found {sizes}")
        agreed[key] = Shard(weakref.ref(group), dist.get_rank(group), sizes)
    return agreed[key]


def compare_schedules(shard: Shard, key: tuple, schedule: str) -> None:
    """Compares what the ranks planned, when they first plan for a key that is the same on all of them.

    Raises:
        tilewright.UserError: on every rank, if plans differ: their collectives would not fit together.
    """
    group = shard.group
    agreed = _agreed.setdefault(group, {})
    key = (shard, key)
    if key not in agreed or _compares_always():
        _expect_equal(_of_all_ranks({"schedule": schedule}, group))
        agreed[key] = None


def all_class_weights(class_weight: Tensor, shard: Shard) -> Tensor:
    """V, float32: the weights of all ranks' classes, of this rank's V_r."""
    widest = max(shard.sizes)
    mine = torch.nn.functional.pad(class_weight.float(), (0, widest - class_weight.numel()))
    everyone = mine.new_empty(shard.ranks, widest)
    gather(everyone, mine, shard.group)
    return torch.cat([row[:size] for row, size in zip(everyone, shard.sizes)])


def is_of_gloo(tensor: Tensor, group: dist.ProcessGroup) -> bool:
    """Whether gloo moves the tensor: a group may have a backend for each kind of device."""
    return not tensor.is_cuda or dist.get_backend(group) == "gloo"


def gather(everyone: Tensor, mine: Tensor, group: dist.ProcessGroup, waits: bool = True) -> Optional[dist.Work]:
    """R×…, of each rank's …; on a GPU beside what is enqueued next. Without `waits`: what is to be waited for."""
    if is_of_gloo(mine, group):  # where lists are all that older versions of torch gather
        return dist.all_gather(list(everyone.unbind(0)), mine, group=group, async_op=not waits)
    return dist.all_gather_into_tensor(everyone, mine, group=group, async_op=not waits)


def all_rows(rows: Tensor, shard: Shard) -> Tensor:
    """All rows, of which each rank has an equal part."""
    everyone = rows.new_empty(shard.ranks, *rows.shape)
    gather(everyone, rows.contiguous(), shard.group)
    return everyone.flatten(0, 1)

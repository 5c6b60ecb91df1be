"""Apple's cut_cross_entropy."""

import weakref
from dataclasses import dataclass
from typing import Any, Optional, Tuple, Union

import torch
import torch.distributed
from torch import Tensor

from ..._errors import UserError
from ..functional import linear_cross_entropy as _linear_cross_entropy


@dataclass
class VocabParallelOptions:
    """The classes start … stop-1 are this rank's; ranks of the group (None: of all) have them in their order."""

    start: int
    stop: int
    group: Optional["torch.distributed.ProcessGroup"] = None
    reduce_e_grad: bool = True
    """Whether e's gradient is added up over the ranks."""

    @classmethod
    def from_vocab(cls, vocab_size: int, group: Optional["torch.distributed.ProcessGroup"] = None,
                   reduce_e_grad: bool = True) -> "VocabParallelOptions":
        """Equal parts; the first ranks have one class more where they must."""
        rank, ranks = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        size, more = divmod(vocab_size, ranks)
        start = rank * size + min(rank, more)
        return cls(start, start + size + (rank < more), group, reduce_e_grad)

    for_vocab = from_vocab


_agreed = weakref.WeakKeyDictionary()  # by group: (start, stop) of this rank that are known to follow the others'


def _group_of(options: VocabParallelOptions, classes: int) -> "torch.distributed.ProcessGroup":
    """The group of the options; the first call with such a range compares it with all ranks', and waits for it."""
    if options.stop - options.start != classes:
        raise UserError(f"vocab_parallel_options: expected {classes} classes, as c has rows, found {options.start} to "
                        f"{options.stop}")
    group = torch.distributed.group.WORLD if options.group is None else options.group
    agreed = _agreed.setdefault(group, set())
    mine = (options.start, options.stop)
    if mine not in agreed:
        ranges = [None] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(ranges, mine, group=group)
        if [start for start, _ in ranges] != [0] + [stop for _, stop in ranges[:-1]]:
            raise UserError(f"vocab_parallel_options: expected ranges that follow each other by rank, found {ranges}")
        agreed.add(mine)
    return group


def linear_cross_entropy(
    e: Tensor, c: Tensor, targets: Tensor, bias: Optional[Tensor] = None, ignore_index: int = -100,
    softcap: Optional[float] = None, reduction: str = "mean", shift: Union[bool, int] = 0, return_lse: bool = False,
    filter_eps: Any = None, accum_e_fp32: bool = False, accum_c_fp32: bool = False, filter_e_grad: bool = True,
    filter_c_grad: bool = True, impl: Any = None, *, vocab_parallel_options: Optional[VocabParallelOptions] = None,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """As theirs: a loss, or (loss, lse) with return_lse. Both are float32.

    The order of the arguments is that of their repository; their release 25.1.1 has no bias: give ignore_index and what
    follows by name.

    Args:
        e: (..., H), float32, bfloat16 or float16. c: (V, H), of its type. targets: (...), classes or ignore_index.
        bias: (V,). shift: True is 1. reduction: with 'none' the loss has targets' shape, its last dimension less shift.
        filter_…, accum_…, impl: have no meaning. No gradient is left out, and all sums are float32.
        vocab_parallel_options: c has this rank's classes, targets number those of all ranks. Theirs will do as well.

    Raises:
        tilewright.UserError: ranges of classes that do not fit c, or do not follow each other by rank; as
            `linear_cross_entropy`.
    """
    parallel = {}
    if vocab_parallel_options is not None:
        reduction_of_e = "all_reduce" if getattr(vocab_parallel_options, "reduce_e_grad", True) else "none"
        parallel = dict(group=_group_of(vocab_parallel_options, c.shape[0]), dx_reduce=reduction_of_e)
    out = _linear_cross_entropy(e, c, targets, linear_bias=bias, ignore_index=ignore_index, softcap=softcap,
                                reduction=reduction, shift=int(shift), return_lse=return_lse, **parallel)
    return (out.loss, out.lse) if return_lse else out


class LinearCrossEntropy(torch.nn.Module):
    """As theirs: called with (e, c, targets, bias), as the function. Keywords are the function's."""

    def __init__(self, ignore_index: int = -100, softcap: Optional[float] = None, reduction: str = "mean",
                 filter_eps: Any = None, shift: Union[bool, int] = 0, impl: Any = None, return_lse: bool = False,
                 **filters: Any) -> None:
        super().__init__()
        self.options = dict(ignore_index=ignore_index, softcap=softcap, reduction=reduction, shift=shift,
                            return_lse=return_lse, **filters)

    def forward(self, e: Tensor, c: Tensor, targets: Tensor,
                bias: Optional[Tensor] = None) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        return linear_cross_entropy(e, c, targets, bias, **self.options)

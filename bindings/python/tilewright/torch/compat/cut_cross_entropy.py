"""Apple's cut_cross_entropy."""

from typing import Optional, Union

import torch
from torch import Tensor

from ..._errors import UserError
from ..functional import linear_cross_entropy as _linear_cross_entropy


def linear_cross_entropy(
    e: Tensor, c: Tensor, targets: Tensor, bias: Optional[Tensor] = None, ignore_index: int = -100,
    softcap: Optional[float] = None, reduction: str = "mean", shift: Union[bool, int] = 0, return_lse: bool = False,
    filter_eps=None, accum_e_fp32: bool = False, accum_c_fp32: bool = False, filter_e_grad: bool = True,
    filter_c_grad: bool = True, impl=None, *, vocab_parallel_options=None,
):
    """As theirs: e (..., H), c (V, H), targets (...). A loss, or (loss, lse) with return_lse.

    No gradient is left out and all sums are float32: the filters and accum_… have no meaning. The order of the
    arguments is that of their repository; their release 25.1.1 has no bias: give ignore_index and what follows by name.
    """
    if vocab_parallel_options is not None:
        raise UserError("vocab_parallel_options: expected None: a vocabulary over several GPUs is not offered yet")
    out = _linear_cross_entropy(e, c, targets, linear_bias=bias, ignore_index=ignore_index, softcap=softcap,
                                reduction=reduction, shift=int(shift), return_lse=return_lse)
    return (out.loss, out.lse) if return_lse else out


class LinearCrossEntropy(torch.nn.Module):
    """As theirs: called with (e, c, targets, bias)."""

    def __init__(self, ignore_index: int = -100, softcap: Optional[float] = None, reduction: str = "mean",
                 filter_eps=None, shift: Union[bool, int] = 0, impl=None, return_lse: bool = False, **filters):
        super().__init__()
        self.options = dict(ignore_index=ignore_index, softcap=softcap, reduction=reduction, shift=shift,
                            return_lse=return_lse, **filters)

    def forward(self, e: Tensor, c: Tensor, targets: Tensor, bias: Optional[Tensor] = None):
        return linear_cross_entropy(e, c, targets, bias, **self.options)

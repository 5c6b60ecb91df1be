"""QuACK's linear cross entropy: `quack.linear_cross_entropy`."""

from typing import Optional

import torch
from torch import Tensor

from ..functional import linear_cross_entropy


def chunked_linear_cross_entropy(
    x: Tensor, weight: Tensor, target: Tensor, chunk_size: int = 4096, ignore_index: int = -100,
    reduction: str = "mean", tuned: bool = True, use_scaled_exp: Optional[bool] = None,
) -> Tensor:
    """As theirs: the loss, float32; () or, with 'none', target's shape.

    Args:
        x: (..., H), float32, bfloat16 or float16. weight: (V, H), of its type. target: (...), classes or ignore_index.
        reduction: 'mean' or 'sum', as theirs; 'none', too.
        chunk_size, tuned, use_scaled_exp: have no meaning.

    Raises:
        tilewright.UserError: as `linear_cross_entropy`.
    """
    return linear_cross_entropy(x, weight, target, ignore_index=ignore_index, reduction=reduction)


def linear_cross_entropy_func(
    x: Tensor, weight: Tensor, bias: Optional[Tensor], target: Tensor, ignore_index: int = -100,
    reduction: str = "mean", inplace_backward: bool = False,
) -> Tensor:
    """As theirs, without the logits: x (..., H), weight (V, H), bias (V,) or None, target (...).

    The loss is float32; () or, with 'none', target's shape. inplace_backward has no meaning. What is raised is
    `tilewright.UserError`, as by `linear_cross_entropy`.
    """
    return linear_cross_entropy(x, weight, target, linear_bias=bias, ignore_index=ignore_index, reduction=reduction)


class LinearCrossEntropy(torch.nn.Linear):
    """As theirs: a linear layer that is called with (input, target), (..., H) and (...), and gives the loss.

    chunk_size, inplace_backward, tuned and use_scaled_exp have no meaning.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = False, ignore_index: int = -100,
                 reduction: str = "mean", chunk_size: Optional[int] = None, inplace_backward: bool = False,
                 tuned: bool = True, use_scaled_exp: Optional[bool] = None,
                 device: Optional[torch.device] = None, dtype: Optional[torch.dtype] = None) -> None:
        super().__init__(in_features, out_features, bias=bias, device=device, dtype=dtype)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return linear_cross_entropy_func(input, self.weight, self.bias, target, self.ignore_index, self.reduction)

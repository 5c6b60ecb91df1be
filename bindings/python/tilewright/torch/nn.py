"""The losses as modules."""

from typing import Any, Optional, Union

import torch
from torch import Tensor

from .functional import LossOutput, linear_cross_entropy


class LinearCrossEntropyLoss(torch.nn.Module):
    """A linear layer and its cross entropy as one module, which owns the layer's weight.

    Shapes: input (..., in_features), target (...); the loss is float32. Keywords beside those of `torch.nn.Linear` are
    those of `linear_cross_entropy`, which says what they mean and what is raised.

    Args:
        in_features: H. num_classes: V. bias: whether the layer has one.
        weight: (V,), the weights of the classes.
    """

    weight: Optional[Tensor]

    def __init__(self, in_features: int, num_classes: int, *, bias: bool = False, weight: Optional[Tensor] = None,
                 device: Optional[Union[str, torch.device]] = None, dtype: Optional[torch.dtype] = None,
                 **options: Any) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(in_features, num_classes, bias=bias, device=device, dtype=dtype)
        self.register_buffer("weight", weight)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Union[Tensor, LossOutput]:
        return linear_cross_entropy(input, self.linear.weight, target, linear_bias=self.linear.bias, weight=self.weight,
                                    **self.options)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())

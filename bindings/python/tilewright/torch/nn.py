"""The losses as modules."""

from typing import TYPE_CHECKING, Any, Generic, Literal, Optional, TypeVar, Union, overload

import torch
from torch import Tensor

from .functional import LinearLossOptions, LossOutput, linear_cross_entropy

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Result = TypeVar("_Result")  # Tensor, or LossOutput with a keyword return_*


class _Keywords(LinearLossOptions, total=False):
    bias: bool
    weight: Optional[Tensor]
    device: Optional[Union[str, torch.device]]
    dtype: Optional[torch.dtype]


class LinearCrossEntropyLoss(torch.nn.Module, Generic[_Result]):
    """A linear layer and its cross entropy as one module, which owns the layer's weight.

    Shapes: input (..., in_features), target (...); the loss is float32. Keywords beside those of `torch.nn.Linear` are
    those of `linear_cross_entropy`, which says what they mean and what is raised.

    Args:
        in_features: H. num_classes: V. bias: whether the layer has one.
        weight: (V,), the weights of the classes.
    """

    weight: Optional[Tensor]

    @overload
    def __init__(
        self: "LinearCrossEntropyLoss[Tensor]", in_features: int, num_classes: int, *, return_lse: Literal[False] = ...,
        return_entropy: Literal[False] = ..., return_correct: Literal[False] = ..., return_argmax: Literal[False] = ...,
        return_monitored: Literal[False] = ..., **keywords: "Unpack[_Keywords]") -> None: ...

    @overload
    def __init__(
        self: "LinearCrossEntropyLoss[LossOutput]", in_features: int, num_classes: int, *, return_lse: bool = ...,
        return_entropy: bool = ..., return_correct: bool = ..., return_argmax: bool = ..., return_monitored: bool = ...,
        **keywords: "Unpack[_Keywords]") -> None: ...

    def __init__(self, in_features: int, num_classes: int, *, bias: bool = False, weight: Optional[Tensor] = None,
                 device: Optional[Union[str, torch.device]] = None, dtype: Optional[torch.dtype] = None,
                 **options: Any) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(in_features, num_classes, bias=bias, device=device, dtype=dtype)
        self.register_buffer("weight", weight)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> _Result:
        return linear_cross_entropy(input, self.linear.weight, target, linear_bias=self.linear.bias, weight=self.weight,
                                    **self.options)

    if TYPE_CHECKING:
        def __call__(self, input: Tensor, target: Tensor) -> _Result: ...

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())

"""The losses for PyTorch: `linear_cross_entropy` is `F.cross_entropy(F.linear(x, w), y)` without the logits."""

from . import nn
from ._calls import forget_prepared_calls, prepared_calls
from ._devices import check
from ._kernels import Kernel
from .functional import LossOutput, cross_entropy, linear_cross_entropy, selected_log_probs

__all__ = ["Kernel", "LossOutput", "check", "cross_entropy", "forget_prepared_calls", "linear_cross_entropy",
           "nn", "prepared_calls", "selected_log_probs"]

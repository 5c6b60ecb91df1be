"""Geiping's linear_cross_entropy_loss: `linear_cross_entropy`. Its weight is H×V, and its sizes are free here."""

import math
from typing import Callable, Dict, Optional, Tuple

import torch
from torch import Tensor

from ..functional import linear_cross_entropy as _linear_cross_entropy


def linear_cross_entropy(x: Tensor, y: Tensor, At: Tensor, ignore_index: int = -100, z_regularization: float = 0.0,
                         logit_scale: float = 1.0, N_chunk_size: int = 4096, monitoring: bool = False
                         ) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As theirs: the mean loss, and what is monitored.

    Args:
        x: (..., H), float32, bfloat16 or float16. y: (...), classes or ignore_index. At: (H, V), of x's type. The
            kernels read rows of classes: At is transposed here, which makes a copy of it.
        N_chunk_size: has no meaning.

    Returns:
        (loss, mean of lse², largest logit, mean entropy, mean of the rows' norms), float32, without a dimension, of the
        rows that are not ignored. The loss alone has a gradient. Without monitoring the last three are 0.

    Raises:
        tilewright.UserError: as `linear_cross_entropy`.
    """
    out = _linear_cross_entropy(x, At.t().contiguous(), y, ignore_index=ignore_index, z_loss=z_regularization,
                                logit_scale=logit_scale, return_lse=not monitoring, return_monitored=monitoring)
    if monitoring:
        largest, norm, entropy, z_value, _, _ = out.monitored.unbind()
        return out.loss, z_value, largest, entropy, norm
    count = (y != ignore_index).sum().clamp_min(1)
    z_value = out.lse.detach().square().sum() / count
    nothing = torch.zeros_like(z_value)
    return out.loss, z_value, nothing, nothing, nothing


class LinearCrossEntropyLoss(torch.nn.Linear):
    """As theirs: called with (x, y), (..., H) and (...); the weight is (H, V).

    Where `monitoring` is True, `latest_metrics` has logit_norm, logit_max, logit_entropy and z_value of the last call.
    Keywords are the function's.
    """

    def __init__(self, in_features: int, out_features: int, device: Optional[torch.device] = None,
                 dtype: Optional[torch.dtype] = None, ignore_index: int = -100, logit_scale: float = 1.0,
                 z_regularization: float = 0.0, N_chunk_size: int = 4096,
                 init_method: Optional[Callable[[Tensor], object]] = None) -> None:
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features = in_features, out_features
        self.weight = torch.nn.Parameter(torch.empty(in_features, out_features, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        self.ignore_index, self.logit_scale, self.z_regularization = ignore_index, logit_scale, z_regularization
        self.init_method = init_method
        self.monitoring = False
        self.latest_metrics: Dict[str, Tensor] = {}
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.init_method is not None:
            self.init_method(self.weight)
            return
        deviation = math.sqrt(1 / self.in_features)
        torch.nn.init.trunc_normal_(self.weight, std=deviation, a=-3 * deviation, b=3 * deviation)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        loss, z_value, largest, entropy, norm = linear_cross_entropy(
            x, y, self.weight, self.ignore_index, self.z_regularization, self.logit_scale, monitoring=self.monitoring)
        if self.monitoring:
            self.latest_metrics = {"logit_norm": norm, "logit_max": largest, "logit_entropy": entropy,
                                   "z_value": z_value}
        return loss

"""Geiping's linear_cross_entropy_loss: `linear_cross_entropy`. Its weight is H×V, and its sizes are free here."""

import math

import torch
from torch import Tensor

from ..functional import linear_cross_entropy as _linear_cross_entropy


def _call(x, y, weight, ignore_index, z_regularization, logit_scale, monitoring):
    """Loss, mean of lse², mean entropy (0 if not monitored).

    The kernels read rows of classes: the weight is transposed here, which makes a copy of it."""
    out = _linear_cross_entropy(x, weight.t().contiguous(), y, ignore_index=ignore_index, z_loss=z_regularization,
                                logit_scale=logit_scale, return_lse=True, return_entropy=monitoring)
    count = (y != ignore_index).sum().clamp_min(1)
    z_value = out.lse.detach().square().sum() / count
    entropy = out.entropy.detach().sum() / count if monitoring else torch.zeros_like(z_value)
    return out.loss, z_value, entropy


def linear_cross_entropy(x: Tensor, y: Tensor, At: Tensor, ignore_index: int = -100, z_regularization: float = 0.0,
                         logit_scale: float = 1.0, N_chunk_size: int = 4096, monitoring: bool = False):
    """As theirs: x (..., H), y (...), At (H, V). (loss, mean of lse², largest logit, mean entropy, norm of the logits).

    N_chunk_size has no meaning. The largest logit and the norm are not made: NaN. The entropy is 0 if not monitored."""
    loss, z_value, entropy = _call(x, y, At, ignore_index, z_regularization, logit_scale, monitoring)
    unknown = torch.full_like(z_value, math.nan)
    return loss, z_value, unknown, entropy, unknown


class LinearCrossEntropyLoss(torch.nn.Linear):
    """As theirs: called with (x, y); `monitoring` = True puts z_value and logit_entropy into `latest_metrics`."""

    def __init__(self, in_features: int, out_features: int, device=None, dtype=None, ignore_index: int = -100,
                 logit_scale: float = 1.0, z_regularization: float = 0.0, N_chunk_size: int = 4096, init_method=None):
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features = in_features, out_features
        self.weight = torch.nn.Parameter(torch.empty(in_features, out_features, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        self.ignore_index, self.logit_scale, self.z_regularization = ignore_index, logit_scale, z_regularization
        self.init_method = init_method
        self.monitoring = False
        self.latest_metrics = {}
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.init_method is not None:
            self.init_method(self.weight)
            return
        deviation = math.sqrt(1 / self.in_features)
        torch.nn.init.trunc_normal_(self.weight, std=deviation, a=-3 * deviation, b=3 * deviation)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        loss, z_value, entropy = _call(x, y, self.weight, self.ignore_index, self.z_regularization, self.logit_scale,
                                       self.monitoring)
        if self.monitoring:
            self.latest_metrics = {"z_value": z_value, "logit_entropy": entropy}
        return loss

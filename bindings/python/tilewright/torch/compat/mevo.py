"""fairscale's MEVO: `fairscale.experimental.nn.MemoryEfficientVocabOutput`."""

from typing import Optional

import torch
from torch import Tensor

from ..._errors import UserError
from ..functional import linear_cross_entropy


class MemoryEfficientVocabOutput(torch.nn.Module):
    """As theirs: called with (input, target), (..., H) and (...); the loss of all rows. In eval mode, the logits.

    Args:
        proj_weight: (V, H), often an embedding's.
        tile_factor: has no meaning here.
        reduction: 'sum', or 'mean' over all rows.
        margin, scale: large margin cosine loss where scale is given.

    Its attribute log_softmax, True at first, may be set to False: then a row's loss is −p of its target. The loss is
    float32, without a dimension. `tilewright.UserError` is raised for another reduction, and by a call as by
    `linear_cross_entropy`.
    """

    def __init__(self, proj_weight: torch.nn.Parameter, tile_factor: int = 16, reduction: str = "sum",
                 margin: float = 0.35, scale: Optional[float] = None) -> None:
        super().__init__()
        if reduction not in ("sum", "mean"):
            raise UserError(f"reduction: expected 'sum' or 'mean', found {reduction!r}")
        self.proj_weight = proj_weight
        self.reduction, self.margin, self.scale = reduction, margin, scale
        self.log_softmax = True

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        if not self.training:
            return self.eval_forward(input)
        margin = None if self.scale is None else (self.margin, self.scale)
        return linear_cross_entropy(input, self.proj_weight, target, reduction=self.reduction, margin=margin,
                                    objective="log_prob" if self.log_softmax else "prob")

    def eval_forward(self, input: Tensor) -> Tensor:
        """The logits, (..., V); with a scale, cosines times it."""
        if self.scale is None:
            return torch.nn.functional.linear(input, self.proj_weight)
        normalize = torch.nn.functional.normalize
        return self.scale * torch.nn.functional.linear(normalize(input, dim=-1), normalize(self.proj_weight, dim=-1))

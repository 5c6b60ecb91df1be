"""verl's linear cross entropy: `verl.utils.kernel.linear_cross_entropy`."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from ..._errors import UserError
from ..functional import selected_log_probs


def linear_cross_entropy(hidden: Tensor, weight: Tensor, labels: Tensor, temperature: float = 1.0,
                         reduction: Optional[str] = "none",
                         dist_process_group: Optional["torch.distributed.ProcessGroup"] = None
                         ) -> Tuple[Tensor, Tensor]:
    """As theirs: the log-probabilities of the labels and the entropies, both float32 and differentiable.

    Args:
        hidden: (..., H). weight: (V, H), of its type. labels: (...), classes of an integer type.
        temperature: logits are divided by it; not 0.
        reduction: 'none' (or None): both are vectors of all rows. 'sum', 'mean': of the log-probabilities alone.
        dist_process_group: the tensor parallel ranks that share the vocabulary; weight has this rank's classes then.

    Raises:
        tilewright.UserError: another reduction; as `linear_cross_entropy`.
    """
    log_p, entropy = selected_log_probs(hidden.reshape(-1, hidden.shape[-1]), weight, labels.reshape(-1),
                                        temperature=temperature, ignore_index=-1, group=dist_process_group)
    reductions = {"none": lambda values: values, "sum": Tensor.sum, "mean": Tensor.mean}
    reduce = reductions.get(str(reduction).lower())
    if reduce is None:
        raise UserError(f"reduction: expected 'none', 'sum' or 'mean', found {reduction!r}")
    return reduce(log_p), entropy

"""verl's linear cross entropy: `verl.utils.kernel.linear_cross_entropy`."""

from typing import Optional, Tuple

from torch import Tensor

from ..._errors import UserError
from ..functional import selected_log_probs


def linear_cross_entropy(hidden: Tensor, weight: Tensor, labels: Tensor, temperature: float = 1.0,
                         reduction: Optional[str] = "none", dist_process_group=None) -> Tuple[Tensor, Tensor]:
    """As theirs: hidden (..., H), weight (V, H), labels (...). (log-probabilities, entropies), both differentiable.

    dist_process_group: the tensor parallel ranks that share the vocabulary; weight has this rank's classes then.
    With 'none' both are vectors of all rows; 'sum' and 'mean' reduce the log-probabilities alone. Labels are classes.
    """
    log_p, entropy = selected_log_probs(hidden.reshape(-1, hidden.shape[-1]), weight, labels.reshape(-1),
                                        temperature=temperature, ignore_index=-1, group=dist_process_group)
    reductions = {"none": lambda values: values, "sum": Tensor.sum, "mean": Tensor.mean}
    if str(reduction).lower() not in reductions:
        raise UserError(f"reduction: expected 'none', 'sum' or 'mean', found {reduction!r}")
    return reductions[reduction.lower()](log_p), entropy

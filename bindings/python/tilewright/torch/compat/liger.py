"""Liger-Kernel's fused linear cross entropy: `liger_kernel.transformers`."""

import inspect
from dataclasses import dataclass
from typing import Callable, Optional, Union

import torch
from torch import Tensor

from ..._errors import UserError
from ..functional import linear_cross_entropy
from ._patch import Patch


@dataclass
class CrossEntropyOutput:
    """Loss, and what else was asked for; None for what was not."""

    loss: Tensor
    z_loss: Optional[Tensor] = None
    """lse_square_scale·lse², reduced as the loss, of which it is a part; without a gradient."""
    token_accuracy: Optional[Tensor] = None
    """Share of the rows not ignored whose largest logit is the target's; with 'none' 1 or 0 a row."""
    predicted_tokens: Optional[Tensor] = None
    """int64, a row: the class with the largest logit; -1 of an ignored row."""


def liger_fused_linear_cross_entropy(
    input: Tensor, weight: Tensor, target: Tensor, bias: Optional[Tensor] = None, ce_weight: Optional[Tensor] = None,
    ignore_index: int = -100, lse_square_scale: float = 0.0, label_smoothing: float = 0.0, reduction: str = "mean",
    softcap: Optional[float] = None, return_z_loss: bool = False, accum_dtype: Optional[torch.dtype] = None,
    use_token_scaling: bool = False, return_token_accuracy: bool = False, return_predicted_tokens: bool = False,
    chunk_mem_const: int = 1,
) -> Union[Tensor, CrossEntropyOutput]:
    """As Liger's: a loss, or a CrossEntropyOutput where more is asked for. The loss is float32.

    Args:
        input: (N, H), float32, bfloat16 or float16. weight: (V, H), of its type. target: (N,), classes or ignore_index.
        bias: (V,). ce_weight: (V,), the weights of the classes.
        lse_square_scale: z_loss of `linear_cross_entropy`.
        use_token_scaling: multiplies each row's loss by its target's probability, for which the head's product is made
            once more.
        accum_dtype, chunk_mem_const: have no meaning; sums are float32.

    Raises:
        tilewright.UserError: as `linear_cross_entropy`.
    """
    options = dict(linear_bias=bias, weight=ce_weight, ignore_index=ignore_index, z_loss=lse_square_scale,
                   label_smoothing=label_smoothing, softcap=softcap)
    row_weight = None
    if use_token_scaling:
        with torch.no_grad():
            row_weight = torch.exp(-linear_cross_entropy(
                input, weight, target, linear_bias=bias, ignore_index=ignore_index, softcap=softcap, reduction="none"))
    out = linear_cross_entropy(input, weight, target, reduction=reduction, row_weight=row_weight,
                               return_lse=return_z_loss, return_correct=return_token_accuracy,
                               return_argmax=return_predicted_tokens, **options)
    if not (return_z_loss or return_token_accuracy or return_predicted_tokens):
        return out
    valid = target != ignore_index
    return CrossEntropyOutput(
        out.loss,
        _z_loss(out.lse.detach(), valid, row_weight, lse_square_scale, reduction) if return_z_loss else None,
        _accuracy(out.correct, valid, reduction) if return_token_accuracy else None,
        out.argmax.long() if return_predicted_tokens else None)


def _z_loss(lse: Tensor, valid: Tensor, row_weight: Optional[Tensor], scale: float, reduction: str) -> Tensor:
    rows = scale * lse.square()
    if row_weight is not None:
        rows = rows * row_weight
    if reduction == "none":
        return rows
    return rows.sum() if reduction == "sum" else rows.sum() / valid.sum().clamp_min(1)


def _accuracy(correct: Tensor, valid: Tensor, reduction: str) -> Tensor:
    correct = correct.to(torch.float32)
    return correct if reduction == "none" else correct.sum() / valid.sum().clamp_min(1)


class LigerFusedLinearCrossEntropyLoss(torch.nn.Module):
    """As Liger's: called with (lin_weight, _input, target, bias), (V, H), (N, H), (N,) and (V,). Keywords are the
    function's."""

    def __init__(
        self, ce_weight: Optional[Tensor] = None, ignore_index: int = -100, lse_square_scale: float = 0.0,
        label_smoothing: float = 0.0, reduction: str = "mean", softcap: Optional[float] = None,
        return_z_loss: bool = False, accum_dtype: Optional[torch.dtype] = None, use_token_scaling: bool = False,
        return_token_accuracy: bool = False, return_predicted_tokens: bool = False,
    ) -> None:
        super().__init__()
        self.options = dict(
            ce_weight=ce_weight, ignore_index=ignore_index, lse_square_scale=lse_square_scale,
            label_smoothing=label_smoothing, reduction=reduction, softcap=softcap, return_z_loss=return_z_loss,
            accum_dtype=accum_dtype, use_token_scaling=use_token_scaling, return_token_accuracy=return_token_accuracy,
            return_predicted_tokens=return_predicted_tokens)

    def forward(self, lin_weight: Tensor, _input: Tensor, target: Tensor,
                bias: Optional[Tensor] = None) -> Union[Tensor, CrossEntropyOutput]:
        return liger_fused_linear_cross_entropy(_input, lin_weight, target, bias, **self.options)


def _check_parameters(theirs: Callable, ours: Callable) -> None:
    unknown = set(inspect.signature(theirs).parameters) - set(inspect.signature(ours).parameters)
    if unknown:
        raise UserError(f"patch_liger: expected a {theirs.__name__} with the parameters that ours has, found "
                        f"{', '.join(sorted(unknown))} besides: this version of liger_kernel is not known")


def patch_liger() -> Patch:
    """Puts ours in the place of Liger's fused linear cross entropy, for all models that Liger has patched, or will.

    Raises:
        ImportError: liger_kernel is not installed.
        tilewright.UserError: its function has parameters that ours has not.
    """
    import liger_kernel.transformers as transformers
    from liger_kernel.transformers import functional, fused_linear_cross_entropy

    _check_parameters(functional.liger_fused_linear_cross_entropy, liger_fused_linear_cross_entropy)
    theirs = getattr(functional, "CrossEntropyOutput", CrossEntropyOutput)

    def patched(*arguments, **named):
        out = liger_fused_linear_cross_entropy(*arguments, **named)
        return theirs(**vars(out)) if isinstance(out, CrossEntropyOutput) else out

    patched.__signature__ = inspect.signature(liger_fused_linear_cross_entropy)  # Liger filters keywords by it
    patch = Patch()
    patch.set(functional, "liger_fused_linear_cross_entropy", patched)
    for module in (fused_linear_cross_entropy, transformers):
        patch.set(module, "LigerFusedLinearCrossEntropyLoss", LigerFusedLinearCrossEntropyLoss)
    return patch

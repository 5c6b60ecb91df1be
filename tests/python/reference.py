"""The losses in float64 by torch's autograd, from their definition."""

import torch


def rows_of(logits, target, weight=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    """For N×V float64 logits: main and z parts of the rows' losses, class weight, lse, entropy; 0 of ignored rows."""
    valid = target != ignore_index
    label = torch.where(valid, target, 0).long()
    classes = logits.shape[1]
    lse = logits.logsumexp(1)
    log_p = logits - lse[:, None]
    u = torch.ones(classes, dtype=torch.float64, device=logits.device) if weight is None else weight.double()
    picked = -log_p.gather(1, label[:, None])[:, 0]
    main = (1 - label_smoothing) * u[label] * picked - label_smoothing / classes * (log_p * u).sum(1)
    entropy = -(log_p.exp() * log_p).sum(1)
    mask = valid.double()
    return main * mask, z_loss * lse ** 2 * mask, u[label] * mask, lse * mask, entropy * mask, mask


def logits_of(x, w, target, bias=None, logit_scale=1.0, softcap=None, margin=None, ignore_index=-100):
    x, w = x.double(), w.double()
    if margin is not None:
        cosines = torch.nn.functional.normalize(x) @ torch.nn.functional.normalize(w).T
        label = torch.where(target != ignore_index, target, 0).long()
        hit = torch.nn.functional.one_hot(label, w.shape[0]).double()
        return margin[1] * (cosines - margin[0] * hit)
    logits = x @ w.T
    if bias is not None:
        logits = logits + bias.double()
    logits = logits * logit_scale
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


def linear_cross_entropy(x, w, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=-100,
                         label_smoothing=0.0, z_loss=0.0, logit_scale=1.0, softcap=None, margin=None, row_weight=None):
    """(loss, lse, entropy) of matrices."""
    logits = logits_of(x, w, target, linear_bias, logit_scale, softcap, margin, ignore_index)
    return over_logits(logits, target, weight=weight, reduction=reduction, ignore_index=ignore_index,
                       label_smoothing=label_smoothing, z_loss=z_loss, row_weight=row_weight)


def over_logits(logits, target, *, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0, z_loss=0.0,
                row_weight=None):
    main, extra, u, lse, entropy, mask = rows_of(logits.double(), target, weight, ignore_index, label_smoothing,
                                                 z_loss)
    if row_weight is not None:
        main, extra = main * row_weight.double(), extra * row_weight.double()
    if reduction == "none":
        loss = main + extra
    elif reduction == "sum":
        loss = (main + extra).sum()
    else:
        loss = main.sum() / u.sum() + extra.sum() / mask.sum()
    return loss, lse, entropy


def relative(found, expected):
    """Relative Frobenius error."""
    difference = (found.double() - expected.double()).norm()
    return float(difference / expected.double().norm().clamp_min(1e-300))

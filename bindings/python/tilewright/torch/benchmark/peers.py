"""What others offer, as functions of (x, w, y) that give the mean loss; those that are installed."""

import importlib.util
from typing import Callable, Dict

import torch
import torch.nn.functional as F

from .. import functional


def ours(x, w, y):
    return functional.linear_cross_entropy(x, w, y)


def eager(x, w, y):
    return F.cross_entropy(F.linear(x, w), y)


def _liger() -> Callable:
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy
    return lambda x, w, y: liger_fused_linear_cross_entropy(x, w, y)


def _quack() -> Callable:
    from quack.linear_cross_entropy import chunked_linear_cross_entropy

    def loss(x, w, y):
        chunk = min(4096, x.shape[0])  # 4096 is its default; 0.6.5 fails where a chunk has as many rows as x has columns
        return chunked_linear_cross_entropy(x, w, y, chunk_size=chunk // 2 if chunk == x.shape[1] else chunk)

    return loss


def _cce() -> Callable:
    from cut_cross_entropy import linear_cross_entropy
    return lambda x, w, y: linear_cross_entropy(x, w, y)


def _torch() -> Callable:
    options = torch.nn.LinearCrossEntropyOptions()
    return lambda x, w, y: F.linear_cross_entropy(x, w, y, options=options)


_OPTIONAL = {"Liger": ("liger_kernel", _liger), "QuACK": ("quack", _quack), "CCE": ("cut_cross_entropy", _cce)}


def available(device: str) -> Dict[str, Callable]:
    """Ours, eager, torch.compile, torch's own chunked loss (2.13 or later), and peers that are installed."""
    found = {"tilewright": ours, "eager": eager, "torch.compile": torch.compile(eager)}
    if hasattr(torch.nn, "LinearCrossEntropyOptions"):
        found["torch's own"] = _torch()
    for name, (module, make) in _OPTIONAL.items():
        if not device.startswith("cuda") or importlib.util.find_spec(module) is None:
            continue
        try:
            found[name] = make()
        except Exception as error:  # whatever a peer's import fails with
            print(f"{name} is installed, but cannot be used: {error}")
    return found


def training_call(loss: Callable, problem) -> Callable:
    """Loss and gradients, which are dropped before."""

    def call():
        problem.forget_gradients()
        loss(*problem).backward()

    return call

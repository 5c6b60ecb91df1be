"""Errors of losses and their gradients, relative to float64."""

import sys
from typing import Callable

import torch

from . import peers
from .measure import Problem, random_problem


def exact(problem: Problem) -> tuple:
    """Loss and gradients in float64, in chunks of rows."""
    w = problem.w.detach().double()
    valid = problem.y != -100
    count = valid.sum()
    loss, dx, dw = 0.0, torch.empty_like(problem.x, dtype=torch.float64), torch.zeros_like(w)
    rows = max(1, min(len(problem.y), (1 << 26) // w.shape[0]))
    for begin in range(0, len(problem.y), rows):
        part = slice(begin, begin + rows)
        x, mask = problem.x.detach()[part].double(), valid[part].double()[:, None]
        label = problem.y[part].clamp_min(0)[:, None]
        log_p = (x @ w.T).log_softmax(1)
        loss = loss - (log_p.gather(1, label) * mask).sum()
        gradient = log_p.exp_().scatter_add_(1, label, -torch.ones_like(mask)) * mask / count
        dx[part] = gradient @ w
        dw += gradient.T @ x
    return loss / count, dx, dw


def _error(found, expected) -> float:
    return float((found.detach().double() - expected).norm() / expected.norm())


def errors(loss: Callable, problem: Problem, exact: tuple) -> list:
    """Of the loss, dX and dW."""
    problem.forget_gradients()
    value = loss(*problem)
    value.backward()
    found = [_error(value, right) for value, right in zip((value, problem.x.grad, problem.w.grad), exact)]
    problem.forget_gradients()
    return found


def check(n: int, h: int, v: int, dtype: torch.dtype, device: str) -> None:
    """Prints our errors beside eager torch's; ends the program where ours are not those of rounding."""
    problem = random_problem(n, h, v, dtype, device)
    right = exact(problem)
    print(f"{n}×{h}×{v}, {str(dtype)[6:]}, {device}: errors relative to float64")
    found = {name: errors(loss, problem, right) for name, loss in (("tilewright", peers.ours), ("eager", peers.eager))}
    for name, (of_loss, of_dx, of_dw) in found.items():
        print(f"  {name:12s} loss {of_loss:.1e}   dX {of_dx:.1e}   dW {of_dw:.1e}", flush=True)
    of_loss, *of_gradients = found["tilewright"]
    allowed = 8 * torch.finfo(dtype).eps
    if not (of_loss <= 1e-5 and max(of_gradients) <= allowed):  # nor NaN
        sys.exit(f"expected at most 1e-5 of the loss and {allowed:.1e} of the gradients")

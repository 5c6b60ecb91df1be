"""Time, memory and host time of a training call."""

import statistics
import time
from typing import Callable, NamedTuple

import torch


class Problem(NamedTuple):
    """A training call's tensors: x (N, H) and w (V, H) want gradients, y has N labels."""

    x: torch.Tensor
    w: torch.Tensor
    y: torch.Tensor

    def forget_gradients(self) -> None:
        self.x.grad = self.w.grad = None


def random_problem(n: int, h: int, v: int, dtype: torch.dtype, device: str) -> Problem:
    """Random data, of which one row in 64 is ignored."""
    generator = torch.Generator(device).manual_seed(1)
    x = torch.randn(n, h, device=device, generator=generator).to(dtype).requires_grad_()
    w = (torch.randn(v, h, device=device, generator=generator) * h ** -0.5).to(dtype).requires_grad_()
    y = torch.randint(0, v, (n,), device=device, generator=generator)
    y[::64] = -100
    return Problem(x, w, y)


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def milliseconds(call: Callable, device: str, repeats: int) -> float:
    """Median of single calls, by CUDA events on a GPU; the first two do not count."""
    times = []
    for index in range(repeats + 2):
        if device.startswith("cuda"):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        else:
            begin = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times[2:])


def in_turn(calls: dict, device: str, repeats: int) -> dict:
    """Median milliseconds of each call; they take turns, so that none has the GPU at its coolest."""
    times = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(milliseconds(call, device, 1))
    return {name: statistics.median(found) for name, found in times.items()}


def peak_bytes(call: Callable, device: str) -> int:
    """Memory of torch's allocator at the call's peak, over what there was before; on a CPU 0: nobody counts there."""
    if not device.startswith("cuda"):
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def host_microseconds(call: Callable, device: str, repeats: int = 30) -> float:
    """Median time after which the call returns, begun with an idle device."""
    times = []
    for _ in range(repeats + 3):
        synchronize(device)
        begin = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - begin))
    synchronize(device)
    return statistics.median(times[3:])


def gibibytes(count: float) -> str:
    return f"{count / 2 ** 30:.2f} GiB"

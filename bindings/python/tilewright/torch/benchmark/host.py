"""The host's time of a training call, forward and backward, where the device has next to nothing to do: ours, eager
torch's, that of an autograd.Function which does nothing (what torch itself takes), and that of our C calls alone."""

import statistics
import time
from typing import Callable, Dict

import torch

from .. import _calls
from .._devices import device_of
from . import peers
from .measure import host_microseconds, random_problem, synchronize

_CALLS = 50  # of a batch; a GPU's queue takes them all


class _Nothing(torch.autograd.Function):
    """Allocates what a loss with gradients has to return, and computes none of it."""

    @staticmethod
    def forward(ctx, x, w, y):
        ctx.gradients = torch.empty_like(x), torch.empty_like(w)
        ctx.save_for_backward(x, w, y)
        return torch.empty((), device=x.device)

    @staticmethod
    def backward(ctx, _):
        return *ctx.gradients, None


def _c_calls(problem) -> Callable:
    """The library's calls of a training call: loss, lse and gradients, then both gradients times the upstream one."""
    x, w, y = problem.x.detach(), problem.w.detach(), problem.y
    d_x, d_w, factor = torch.empty_like(x), torch.empty_like(w), torch.ones((), device=x.device)
    outputs = {"loss": torch.empty((), device=x.device), "lse": torch.empty(len(y), device=x.device), "d_hidden": d_x,
               "d_weight": d_w}
    device, kind = device_of(x), _calls.FORWARD
    loss = _calls.Prepared(device, kind.which, kind.struct, kind.options(_calls.Options()),
                           {"hidden": x, "weight": w, "label": y, **outputs}, *kind.passes)
    tensors = [x, w, y, *outputs.values()]
    loss.run(tensors, reports=False)  # leaves its addresses behind
    frame, = loss._frames
    space = torch.empty(loss.workspace_bytes + 256, dtype=torch.uint8, device=x.device)
    words = [loss._handle, frame.address, -(-space.data_ptr() // 256) * 256, loss.workspace_bytes, None,
             device.stream(), frame.error_address]
    scaling = _calls.Scaling((d_x, d_w), factor)
    scaling.run((d_x, d_w), factor)
    slots, = scaling._frames
    scaled = [scaling._handle, *(slots.first + place * _calls._SLOT_BYTES for place in range(3)), device.stream(),
              slots.error_address]

    def calls(kept=(tensors, space, scaling)):
        loss._run(*words)
        scaling._run(*scaled)

    return calls


def back_to_back(calls: Dict[str, Callable], device: str, batches: int) -> Dict[str, list]:
    """Sorted microseconds until a call returns, means of batches of calls; the calls take turns by batches."""
    times = {name: [] for name in calls}
    for _ in range(batches + 2):
        for name, call in calls.items():
            synchronize(device)
            begin = time.perf_counter()
            for _ in range(_CALLS):
                call()
            times[name].append(1e6 * (time.perf_counter() - begin) / _CALLS)
    synchronize(device)
    return {name: sorted(found[2:]) for name, found in times.items()}


def host(n: int, h: int, v: int, dtype: torch.dtype, device: str, batches: int) -> None:
    """Prints the figures: ours less the C calls is Python's and torch's part, of which a function that does nothing
    says how much is torch's. On a CPU with one thread of torch's: others would wait for work all the time."""
    print(f"{n}×{h}×{v}, {str(dtype)[6:]}, {device}: µs until a training call returns")
    problem = random_problem(n, h, v, dtype, device)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    calls = {"tilewright": peers.training_call(peers.ours, problem),
             "eager torch": peers.training_call(peers.eager, problem),
             "a Function that does nothing": peers.training_call(_Nothing.apply, problem),
             "the C calls alone": _c_calls(problem)}
    found = back_to_back(calls, device, batches)
    print(f"  {'':30s} back to back: median   least   after a wait: median")
    for name, call in calls.items():
        print(f"  {name:30s} {statistics.median(found[name]):20.1f} {found[name][0]:7.1f} "
              f"{host_microseconds(call, device, 10 * batches):22.1f}")
    for title, choose in (("medians", statistics.median), ("least", min)):
        ours, _, nothing, bare = map(choose, found.values())
        print(f"  {title}: tilewright less the C calls {ours - bare:.1f} µs, and less the Function that does nothing "
              f"{ours - bare - nothing:.1f} µs", flush=True)
    torch.set_num_threads(threads)
    problem.forget_gradients()

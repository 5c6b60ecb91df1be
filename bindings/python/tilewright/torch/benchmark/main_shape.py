"""The figures of one training call at the main shape, and at that of TRL's request: time beside the bare products,
memory beside what the call reports, and the host's time."""

import torch
import torch.nn.functional as F

from .. import _calls, functional
from .._devices import device_of
from . import peers
from .measure import gibibytes, host_microseconds, in_turn, milliseconds, peak_bytes, random_problem, synchronize


def _products(problem):
    """The head's three products alone, by torch: X·Wᵀ, dX and dW from logits' gradients of the same size."""
    x, w = problem.x.detach(), problem.w.detach()
    logits = torch.empty(x.shape[0], w.shape[0], dtype=x.dtype, device=x.device)
    dx, dw = torch.empty_like(x), torch.empty_like(w)

    def call():
        torch.mm(x, w.T, out=logits)
        torch.mm(logits, w, out=dx)
        torch.mm(logits.T, x, out=dw)

    return call


def _bare_call(problem):
    """The library's call for loss, lse and gradients, without Python's part but the run itself; bytes of workspace."""
    x, w, y = problem.x.detach(), problem.w.detach(), problem.y
    outputs = {"loss": torch.empty((), device=x.device), "lse": torch.empty(len(y), device=x.device),
               "d_hidden": torch.empty_like(x), "d_weight": torch.empty_like(w)}
    device, kind = device_of(x), _calls.FORWARD
    prepared = _calls.Prepared(device, kind.which, kind.struct, kind.options(_calls.Options()),
                               {"hidden": x, "weight": w, "label": y, **outputs}, *kind.passes)
    print(f"  the call: {prepared.description}; workspace {gibibytes(prepared.workspace_bytes)}")
    tensors = [x, w, y, *outputs.values()]
    return lambda: prepared.run(tensors, reports=False), prepared.workspace_bytes


def _relative(found, expected) -> float:
    return float((found.float() - expected.float()).norm() / expected.float().norm())


def _agreement(problem) -> None:
    """Loss and gradients beside eager torch in the same type, whose own rounding is of the same size."""
    problem.forget_gradients()
    loss = peers.ours(*problem)
    loss.backward()
    ours = (problem.x.grad, problem.w.grad)
    problem.forget_gradients()
    expected = F.cross_entropy(F.linear(problem.x, problem.w).float(), problem.y)
    expected.backward()
    print(f"  beside eager torch: loss {float(loss):.6f} and {float(expected):.6f}; gradients differ by "
          f"{_relative(ours[0], problem.x.grad):.1e} (dX), {_relative(ours[1], problem.w.grad):.1e} (dW)")
    problem.forget_gradients()


def _memory(problem, call, workspace: int) -> None:
    x, w = problem.x, problem.w
    if not x.is_cuda:
        return
    gradients = x.numel() * x.element_size() + w.numel() * w.element_size()
    problem.forget_gradients()
    peak = peak_bytes(call, str(x.device))
    rows = 2 * 4 * x.shape[0]
    expected = gradients + workspace
    print(f"  peak over inputs by torch.cuda.max_memory_allocated: {gibibytes(peak)}; gradients and workspace as "
          f"reported: {gibibytes(expected)}, difference {(peak - expected) / 2 ** 20:.2f} MiB (rows' lse: "
          f"{rows / 2 ** 20:.2f} MiB)")


def main_shape(n: int, h: int, v: int, dtype: torch.dtype, device: str, repeats: int) -> None:
    """Prints the figures of a loss with both gradients."""
    print(f"{n}×{h}×{v}, {str(dtype)[6:]}, {device}: forward and backward")
    problem = random_problem(n, h, v, dtype, device)
    calls = {"tilewright": peers.training_call(peers.ours, problem)}
    bare, workspace = _bare_call(problem)
    _agreement(problem)
    _memory(problem, calls["tilewright"], workspace)
    problem.forget_gradients()
    calls["the C call alone"] = bare
    calls["three products"] = _products(problem)
    _print_times(in_turn(calls, device, repeats), "the C call alone")
    forward = host_microseconds(lambda: functional.linear_cross_entropy(*problem), device)
    both = host_microseconds(calls["tilewright"], device)
    print(f"  host: a training call {both:.0f} µs (its forward part {forward:.0f} µs); the C call alone "
          f"{host_microseconds(bare, device):.0f} µs")
    problem.forget_gradients()


def _print_times(times: dict, base: str) -> None:
    for name, found in times.items():
        print(f"  {name:20s} {found:9.3f} ms   {found / times[base]:.3f} of {base}")


def beside_peers(n: int, h: int, v: int, dtype: torch.dtype, device: str, repeats: int) -> None:
    """Prints time and memory of ours and of all peers that are available."""
    print(f"{n}×{h}×{v}, {str(dtype)[6:]}, {device}: forward and backward, beside others")
    problem = random_problem(n, h, v, dtype, device)
    for name, loss in peers.available(device).items():
        call = peers.training_call(loss, problem)
        try:
            call()
            synchronize(device)
            problem.forget_gradients()
            peak = peak_bytes(call, device)
            print(f"  {name:20s} {milliseconds(call, device, repeats):9.3f} ms   peak over inputs {gibibytes(peak)}")
        except Exception as error:  # out of memory, or what a peer does not support
            print(f"  {name:20s} failed: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
        problem.forget_gradients()
        if device.startswith("cuda"):
            torch.cuda.empty_cache()


def with_entropy_and_accuracy(n: int, h: int, v: int, dtype: torch.dtype, device: str, repeats: int) -> None:
    """Prints the figures of a loss with both gradients that also returns each row's entropy and whether it is right."""
    print(f"{n}×{h}×{v}, {str(dtype)[6:]}, {device}: forward and backward, with entropy and accuracy (TRL 7244)")
    problem = random_problem(n, h, v, dtype, device)

    def call():
        problem.forget_gradients()
        out = functional.linear_cross_entropy(*problem, return_entropy=True, return_correct=True)
        out.loss.backward()

    call()
    problem.forget_gradients()
    if device.startswith("cuda"):
        print(f"  peak over inputs {gibibytes(peak_bytes(call, device))}")
    problem.forget_gradients()
    calls = {"tilewright": call, "without them": peers.training_call(peers.ours, problem),
             "three products": _products(problem)}
    _print_times(in_turn(calls, device, repeats), "three products")
    problem.forget_gradients()


def device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"

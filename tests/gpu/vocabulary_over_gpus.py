#!/usr/bin/env python3
"""A vocabulary over the GPUs of one host, measured: checks first, then times, memory, repeated steps, a CUDA graph.

    torchrun --standalone --nproc-per-node 2 tests/gpu/vocabulary_over_gpus.py          # NCCL, the large shapes
    python tests/gpu/vocabulary_over_gpus.py                                            # one GPU: a group of one rank
    torchrun … --nproc-per-node 2 … --device cpu                                        # gloo, a small shape

Rank 0 prints. The exit status is 1 where a check fails; what is measured decides nothing.
"""

import argparse
import os
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Callable, Dict, NamedTuple

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # NVLink multicast is left off
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings" / "python"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import tilewright.torch as tw  # noqa: E402

LARGE = [(16384, 4096, 128256), (8192, 8192, 128256), (16384, 5120, 151936)]
SMALL = [(96, 24, 301)]
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 8e-3, torch.float16: 2e-3}  # of gradients, beside the unsharded call
failed = []


def on_gpu() -> bool:
    return ARGUMENTS.device == "cuda"


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def expect(condition: bool, what: str) -> None:
    """On every rank alike: one that fails is everyone's."""
    bad = torch.tensor([0.0 if condition else 1.0], device=place())
    dist.all_reduce(bad)
    if bad.item():
        failed.append(what)
        say(f"  FAILED on {int(bad.item())} ranks: {what}")


def place() -> str:
    return f"cuda:{torch.cuda.current_device()}" if on_gpu() else "cpu"


def synchronize() -> None:
    if on_gpu():
        torch.cuda.synchronize()


class Problem(NamedTuple):
    """The same on all ranks, but for this rank's classes and rows. Leaves want gradients."""

    x: torch.Tensor  # N×H
    w: torch.Tensor  # V×H, all classes
    y: torch.Tensor
    mine: torch.Tensor  # this rank's rows of w
    rows: torch.Tensor  # this rank's part of x
    first: int  # of this rank's classes

    def forget(self) -> None:
        for leaf in (self.x, self.w, self.mine, self.rows):
            leaf.grad = None


def problem(shape: tuple, dtype: torch.dtype) -> Problem:
    n, h, v = shape
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), place()
    generator = torch.Generator(device).manual_seed(1)
    x = torch.randn(n, h, device=device, generator=generator).to(dtype)
    w = (torch.randn(v, h, device=device, generator=generator) * h ** -0.5).to(dtype)
    y = torch.randint(0, v, (n,), device=device, generator=generator)
    y[::64] = -100
    size, more = divmod(v, ranks)
    first = rank * size + min(rank, more)
    mine, rows = w[first:first + size + (rank < more)].clone(), x.chunk(ranks)[rank].clone()
    return Problem(*(t.requires_grad_(t.is_floating_point()) for t in (x, w, y, mine, rows)), first)


# ---- Calls -------------------------------------------------------------------------------------------------


def whole(p: Problem) -> torch.Tensor:
    return tw.linear_cross_entropy(p.x, p.w, p.y)


def shared(p: Problem, dx_reduce: str) -> torch.Tensor:
    x = p.rows if dx_reduce == "reduce_scatter" else p.x
    return tw.linear_cross_entropy(x, p.mine, p.y, group=dist.group.WORLD, dx_reduce=dx_reduce)


def reduced_after(p: Problem, scatters: bool) -> None:
    """Forward and backward, and only then the sum of dX over ranks: what has no overlap."""
    if scatters:  # as the call itself does it: each rank has its rows
        gather(p.x.detach(), p.rows.detach())
    shared(p, "none").backward()
    if not scatters:
        dist.all_reduce(p.x.grad)
    elif on_gpu():
        dist.reduce_scatter_tensor(torch.empty_like(p.rows), p.x.grad)
    else:  # gloo has no reduce-scatter in older versions of torch
        dist.all_reduce(p.x.grad)


def gather(everyone: torch.Tensor, mine: torch.Tensor) -> None:
    if on_gpu():
        dist.all_gather_into_tensor(everyone, mine)
    else:
        dist.all_gather(list(everyone.chunk(dist.get_world_size())), mine)


class ThreeAllReduces(torch.autograd.Function):
    """What Megatron-LM's loss does over a shard's logits, with eager products: the mean loss."""

    @staticmethod
    def forward(ctx, x, w, y, first):
        logits = (x @ w.t()).float()
        largest = logits.amax(1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        logits -= largest[:, None]
        is_here = (y >= first) & (y < first + len(w))
        label = torch.where(is_here, y - first, 0)[:, None]
        picked = logits.gather(1, label)[:, 0] * is_here
        dist.all_reduce(picked)
        p = logits.exp_()
        total = p.sum(1)
        dist.all_reduce(total)
        share = (y != -100) / (y != -100).sum()
        p /= total[:, None]
        ctx.save_for_backward(x, w, p, label, is_here, share)
        return ((total.log() - picked) * share).sum()

    @staticmethod
    def backward(ctx, upstream):
        x, w, p, label, is_here, share = ctx.saved_tensors
        p.scatter_add_(1, label, -is_here.to(p.dtype)[:, None])
        d_logits = p.mul_((share * upstream)[:, None]).to(x.dtype)
        dx = d_logits @ w
        work = dist.all_reduce(dx, async_op=True)
        dw = d_logits.t() @ x
        work.wait()
        return dx, dw, None, None


def cut_cross_entropy(p: Problem):
    """CCE's call of the same, or None."""
    try:
        from cut_cross_entropy import VocabParallelOptions, linear_cross_entropy
    except Exception as error:
        say(f"  cut_cross_entropy is not measured: {str(error).splitlines()[0]}")
        return None
    options = VocabParallelOptions.from_vocab(len(p.w), dist.group.WORLD)
    return lambda: linear_cross_entropy(p.x, p.mine, p.y, vocab_parallel_options=options).backward()


# ---- Checks ------------------------------------------------------------------------------------------------


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.float() - expected.float()).norm() / expected.float().norm())


def has_same_bits(values: torch.Tensor) -> bool:
    """As rank 0's."""
    first = values.detach().clone()
    dist.broadcast(first, 0)
    return torch.equal(first, values.detach())


def check(p: Problem) -> None:
    """Losses and gradients of each way to reduce dX beside the unsharded call, on every rank."""
    rank, ranks, tolerance = dist.get_rank(), dist.get_world_size(), TOLERANCE[p.x.dtype]
    expected = whole(p)
    expected.backward()
    d_x, d_w = p.x.grad, p.w.grad[p.first:p.first + len(p.mine)]
    for dx_reduce in ("all_reduce", "reduce_scatter", "none"):
        p.forget()
        loss = shared(p, dx_reduce)
        loss.backward()
        found, wanted = p.x.grad, d_x
        if dx_reduce == "reduce_scatter":
            found, wanted = p.rows.grad, d_x.chunk(ranks)[rank]
        elif dx_reduce == "none":
            dist.all_reduce(found)
        errors = (abs(loss.item() - expected.item()) / abs(expected.item()), relative(found, wanted),
                  relative(p.mine.grad, d_w))
        say(f"  {dx_reduce}: apart from the unsharded call: loss {errors[0]:.1e}, dX {errors[1]:.1e}, "
            f"dW {errors[2]:.1e}")
        expect(errors[0] < 5e-6 and errors[1] < tolerance and errors[2] < tolerance,
               f"{dx_reduce}: errors below 5e-6 of the loss, {tolerance} of gradients; found {errors}")
        expect(has_same_bits(loss), f"{dx_reduce}: the loss has the same bits on all ranks")
        if dx_reduce == "all_reduce":
            expect(has_same_bits(found), "all_reduce: dX has the same bits on all ranks")
    p.forget()
    theirs = ThreeAllReduces.apply(p.x, p.mine, p.y, p.first)
    expect(abs(theirs.item() - expected.item()) < 1e-2 * expected.item(), "three all-reduces give that loss, too")
    p.forget()


def train(p: Problem, steps: int) -> list:
    """Plain descent of input and weight; the losses and what is left."""
    x, w = p.x.detach().clone().requires_grad_(), p.mine.detach().clone().requires_grad_()
    losses = []
    for _ in range(steps):
        loss = tw.linear_cross_entropy(x, w, p.y, group=dist.group.WORLD)
        loss.backward()
        losses.append(loss.detach())
        with torch.no_grad():
            for leaf, rate in ((x, len(x) / 2), (w, len(x) / x.shape[1])):  # a row's own loss is 1 / N of the mean
                leaf -= rate * leaf.grad
                leaf.grad = None
    return [torch.stack(losses), x.detach(), w.detach()]


def check_steps(p: Problem, steps: int) -> None:
    first, second = train(p, steps), train(p, steps)
    expect(all(torch.equal(a, b) for a, b in zip(first, second)), f"{steps} steps have the same bits in two runs")
    expect(bool(first[0][-1] < first[0][0]), "the loss falls")
    say(f"  {steps} steps, twice: loss {first[0][0].item():.4f} to {first[0][-1].item():.4f}, compared bit by bit")


def graph_of(p: Problem):
    """A CUDA graph of forward, backward and all collectives; its replay checked. None on a CPU."""
    if not on_gpu():
        say("  no CUDA graph on a CPU")
        return None
    p.forget()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            p.forget()
            loss = shared(p, "all_reduce")
            loss.backward()
    torch.cuda.current_stream().wait_stream(side)
    wanted = [t.detach().clone() for t in (loss, p.x.grad, p.mine.grad)]
    p.forget()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL's watchdog asks for events meanwhile
        loss = shared(p, "all_reduce")
        loss.backward()
    found = [loss.detach(), p.x.grad, p.mine.grad]
    for _ in range(3):
        for tensor in found:
            tensor.fill_(float("nan"))
        graph.replay()
        synchronize()
        expect(all(torch.equal(a, b) for a, b in zip(found, wanted)), "a CUDA graph's replay has the bits of the call")
    return graph


# ---- Times and memory --------------------------------------------------------------------------------------


def milliseconds(call: Callable, count: int = 3) -> float:
    """Of one of some calls in a row that all ranks begin together."""
    dist.barrier()
    synchronize()
    if not on_gpu():
        begin = time.perf_counter()
        for _ in range(count):
            call()
        return 1e3 * (time.perf_counter() - begin) / count
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / count


def in_turn(calls: Dict[str, Callable], repeats: int) -> Dict[str, float]:
    """Median of the slowest rank's times; calls take turns, so that none has the GPU at its coolest."""
    for call in calls.values():
        call()
    times = torch.tensor([[milliseconds(call) for call in calls.values()] for _ in range(repeats)], device=place())
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return {name: statistics.median(column) for name, column in zip(calls, times.t().tolist())}


def peak_bytes(call: Callable) -> int:
    """Of torch's allocator on the rank that needs most, over what there was before; 0 on a CPU."""
    if not on_gpu():
        return 0
    synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    synchronize()
    peak = torch.tensor([torch.cuda.max_memory_allocated() - before], device=place())
    dist.all_reduce(peak, dist.ReduceOp.MAX)
    return int(peak.item())


def collectives_alone(p: Problem, repeats: int) -> None:
    """What a rank's links move: the numbers that the paper estimate of kernels/README.md assumes."""
    ranks = dist.get_world_size()
    dx, stats = torch.zeros_like(p.x), torch.zeros(3, len(p.y), device=place())
    everyone, part = stats.repeat(ranks, 1), torch.empty_like(p.rows)
    calls = {"all-reduce of dX": lambda: dist.all_reduce(dx),
             "gather of the statistics": lambda: gather(everyone, stats)}
    if on_gpu():
        calls["reduce-scatter of dX"] = lambda: dist.reduce_scatter_tensor(part, dx)
    moved = {"all-reduce of dX": 2 * dx.nbytes, "reduce-scatter of dX": dx.nbytes,
             "gather of the statistics": everyone.nbytes}
    for name, found in in_turn(calls, repeats).items():
        rate = moved[name] * (ranks - 1) / ranks / found / 1e6
        say(f"  {name + ' alone':34s}{found:9.3f} ms   {rate:.0f} GB/s")


def measure(p: Problem, repeats: int, graph) -> None:
    def training(loss: Callable) -> Callable:
        def call():
            p.forget()
            loss().backward()
        return call

    calls = {
        "one rank, all classes": training(lambda: whole(p)),
        "dX all-reduced": training(lambda: shared(p, "all_reduce")),
        "dX scattered": training(lambda: shared(p, "reduce_scatter")),
        "dX not reduced": training(lambda: shared(p, "none")),
        "dX all-reduced after dW": lambda: (p.forget(), reduced_after(p, False)),
        "dX scattered after dW": lambda: (p.forget(), reduced_after(p, True)),
        "three all-reduces, eager": training(lambda: ThreeAllReduces.apply(p.x, p.mine, p.y, p.first)),
    }
    theirs = cut_cross_entropy(p) if on_gpu() else None
    if theirs:
        calls["cut_cross_entropy"] = lambda: (p.forget(), theirs())
    peaks = {}
    for name, call in calls.items():
        call()
        p.forget()
        peaks[name] = peak_bytes(call)
    p.forget()
    if graph is not None:
        calls["dX all-reduced, a CUDA graph"], peaks["dX all-reduced, a CUDA graph"] = graph.replay, 0
    times = in_turn(calls, repeats)
    p.forget()
    alone = times["one rank, all classes"]
    for name, found in times.items():
        peak = f"   peak over inputs {peaks[name] / 2 ** 30:.2f} GiB" if peaks[name] else ""
        say(f"  {name:34s}{found:9.3f} ms   {alone / found / dist.get_world_size():.3f} of linear speed-up{peak}")
    for name in ("dX all-reduced", "dX scattered"):
        say(f"  {name}: beside dW {times[name + ' after dW'] - times[name]:.3f} ms less than after it")


# ---- The program -------------------------------------------------------------------------------------------


def _shape(text: str) -> tuple:
    return tuple(int(part) for part in text.split(","))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--backend", help="of torch.distributed; default: nccl on GPUs, gloo on a CPU")
    parser.add_argument("--dtype", choices=TYPES, help="default: bf16 on GPUs, f32 on a CPU")
    parser.add_argument("--shape", type=_shape, action="append", metavar="N,H,V", help="as often as there are shapes")
    parser.add_argument("--repeats", type=int, help="rounds of times; default: 10 on GPUs, 1 on a CPU; 0: checks alone")
    parser.add_argument("--steps", type=int, default=100, help="of the training that is run twice")
    parser.add_argument("--high-priority", action="store_true", help="NCCL's stream has a high priority")
    return parser.parse_args()


def join() -> None:
    """The group of all processes; without torchrun, of this one."""
    if "RANK" not in os.environ:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    backend, options = ARGUMENTS.backend or ("nccl" if on_gpu() else "gloo"), {}
    if on_gpu():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if backend == "nccl" and ARGUMENTS.high_priority:
        options["pg_options"] = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    dist.init_process_group(backend, **options)


def run_shape(shape: tuple, dtype: torch.dtype, repeats: int) -> None:
    n, h, v = shape
    say(f"{n}×{h}×{v}: forward and backward")
    p = problem(shape, dtype)
    check(p)
    check_steps(p, ARGUMENTS.steps)
    graph = graph_of(p)
    if repeats:
        measure(p, repeats, graph)
        collectives_alone(p, repeats)


def main() -> int:
    join()
    dtype = TYPES[ARGUMENTS.dtype or ("bf16" if on_gpu() else "f32")]
    name = torch.cuda.get_device_name() if on_gpu() else "CPU"
    say(f"{dist.get_world_size()} × {name}, {dist.get_backend()}, torch {torch.__version__}, {str(dtype)[6:]}")
    for shape in ARGUMENTS.shape or (LARGE if on_gpu() else SMALL):
        repeats = ARGUMENTS.repeats if ARGUMENTS.repeats is not None else (10 if on_gpu() else 1)
        run_shape(shape, dtype, repeats)
        tw.forget_prepared_calls()
        if on_gpu():
            torch.cuda.empty_cache()
    if on_gpu():
        tw.check()
    say(f"{len(failed)} checks failed" if failed else "all checks passed")
    synchronize()
    dist.barrier()  # none leaves while another still waits for what it sends
    dist.destroy_process_group()
    return 1 if failed else 0


if __name__ == "__main__":
    ARGUMENTS = parse()
    sys.exit(main())

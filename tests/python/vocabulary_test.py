"""A vocabulary shared among processes (gloo, on the CPU) gives what one process computes.

Each test runs a function of this file in several processes; what it raises there fails the test.
"""

import gc
import math
import multiprocessing
import os
import socket
import time
import traceback
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import reference
import tilewright
from tilewright.torch import _sharded, linear_cross_entropy
from tilewright.torch.compat import cut_cross_entropy

SIZES = {1: [50], 2: [37, 13], 3: [20, 29, 1], 4: [16, 8, 20, 6]}
ROWS, HIDDEN, CLASSES = 24, 20, 50


def _serve(rank, ranks, port, connection):
    """One rank: runs what arrives until None does, and answers with the traceback of what it raised."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TILEWRIGHT_NUM_THREADS="1")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    while (work := connection.recv()) is not None:
        function, arguments = work
        try:
            function(rank, ranks, *arguments)
            connection.send(None)
        except BaseException:
            connection.send(traceback.format_exc())


class Ranks:
    """Processes that are ranks of one group."""

    def __init__(self, ranks):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ends = [context.Pipe() for _ in range(ranks)]
        self.connections = [end[0] for end in ends]
        self.processes = [context.Process(target=_serve, args=(rank, ranks, port, ends[rank][1]), daemon=True)
                          for rank in range(ranks)]
        for process in self.processes:
            process.start()
        for end in ends:
            end[1].close()

    def run(self, function, *arguments):
        for connection in self.connections:
            connection.send((function, arguments))
        failures = []
        for rank, connection in enumerate(self.connections):
            try:
                answer = connection.recv() if connection.poll(120) else "no answer within two minutes"
            except EOFError:
                answer = None if function is _one_dies else "the process died"
            if answer is not None:
                failures.append(f"rank {rank}: {answer}")
        assert not failures, "\n".join(failures)

    def stop(self):
        for process in self.processes:
            process.kill()


_running = {}


@pytest.fixture(scope="module", autouse=True)
def _processes():
    yield
    for ranks in _running.values():
        ranks.stop()


def run(ranks, function, *arguments):
    """Runs function(rank, ranks, *arguments) in as many processes, which later tests use again."""
    if ranks not in _running:
        _running[ranks] = Ranks(ranks)
    _running[ranks].run(function, *arguments)


def problem(dtype=torch.float32, ignored=True):
    torch.manual_seed(7)
    x = torch.randn(ROWS, HIDDEN, dtype=dtype, requires_grad=True)
    w = torch.randn(CLASSES, HIDDEN, dtype=dtype, requires_grad=True)
    y = torch.randint(0, CLASSES, (ROWS,))
    if ignored:
        y[::5] = -100
    return x, w, y


def shard_of(tensor, rank, ranks):
    return None if tensor is None else tensor.detach().split(SIZES[ranks])[rank].clone()


def same_on_all(tensor):
    """Fails unless all ranks have the same bits."""
    others = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(others, tensor.contiguous())
    assert all(torch.equal(tensor, other) for other in others)


def check(rank, ranks, options, with_bias, with_weight, dtype, tolerance):
    x, w, y = problem(dtype)
    bias = torch.randn(CLASSES, requires_grad=True) if with_bias else None
    class_weight = torch.rand(CLASSES) if with_weight else None
    upstream = torch.rand(ROWS)

    def total(loss, lse, entropy):
        parts = [(loss * upstream.to(loss.dtype)).sum() if loss.dim() else 1.5 * loss]
        if options.get("return_lse"):
            parts.append((lse * upstream.to(lse.dtype)).sum())
        if options.get("return_entropy"):
            parts.append((entropy * upstream.flip(0).to(entropy.dtype)).sum())
        return sum(parts)

    of_reference = {k: v for k, v in options.items() if not k.startswith("return_")}
    want = reference.linear_cross_entropy(x, w, y, linear_bias=bias, weight=class_weight, **of_reference)
    leaves = [t for t in (x, w, bias) if t is not None]
    expected = torch.autograd.grad(total(*want), leaves)

    mine = [x.detach().clone(), shard_of(w, rank, ranks), shard_of(bias, rank, ranks)]
    for tensor in mine:
        if tensor is not None:
            tensor.requires_grad_(True)
    found = linear_cross_entropy(mine[0], mine[1], y, linear_bias=mine[2], weight=shard_of(class_weight, rank, ranks),
                                 group=dist.group.WORLD, **options)
    loss, lse, entropy = (found, None, None) if isinstance(found, torch.Tensor) else found[:3]
    gradients = torch.autograd.grad(total(loss, lse, entropy), [t for t in mine if t is not None])
    assert reference.relative(loss, want[0]) < 3e-6
    for values, wanted in ((lse, want[1]), (entropy, want[2])):
        if values is not None:
            assert reference.relative(values, wanted) < 3e-6
            same_on_all(values)
    same_on_all(loss.detach())
    same_on_all(gradients[0])
    assert reference.relative(gradients[0], expected[0]) < tolerance
    for gradient, wanted in zip(gradients[1:], expected[1:]):
        assert (gradient - wanted.split(SIZES[ranks])[rank]).norm() < tolerance * wanted.norm()


OPTIONS = {
    "plain": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "z_loss": {"z_loss": 0.1},
    "scale": {"logit_scale": -0.7},
    "softcap": {"softcap": 3.0},
    "smoothing": {"label_smoothing": 0.2},
    "lse": {"reduction": "none", "return_lse": True},
    "entropy": {"reduction": "none", "return_entropy": True, "return_lse": True, "softcap": 5.0},
    "smoothing and softcap": {"label_smoothing": 0.1, "softcap": 3.0},
    "margin": {"margin": (0.3, 8.0)},
    "margin of rows": {"margin": (0.3, 8.0), "reduction": "none", "return_entropy": True},
    "entropy of a mean": {"return_entropy": True, "z_loss": 0.01, "label_smoothing": 0.1},
}


@pytest.mark.parametrize("ranks", sorted(SIZES))
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_that_of_one_process(ranks, name):
    run(ranks, check, OPTIONS[name], False, False, torch.float32, 2e-5)


def test_bias_and_class_weights():
    run(3, check, {"label_smoothing": 0.1}, True, True, torch.float32, 2e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_of_16_bits(dtype):
    run(2, check, {"return_entropy": True}, True, False, dtype, 8e-3)


def _small_losses(rank, ranks):
    x, w = 30 * torch.eye(8), torch.eye(8)
    loss = linear_cross_entropy(x, w[rank * 4:rank * 4 + 4], torch.arange(8), reduction="none", group=dist.group.WORLD)
    wanted = torch.tensor(7 * math.exp(-30)).log1p()
    assert reference.relative(loss, wanted.expand(8)) < 1e-5


def test_small_losses_keep_their_digits():
    run(2, _small_losses)


def _best(rank, ranks):
    x, w, y = problem()
    y = torch.where(torch.arange(ROWS) % 2 == 0, (x @ w.T).argmax(1), y)  # half of them right
    y[3] = -100
    found = linear_cross_entropy(x.detach(), shard_of(w, rank, ranks), y, group=dist.group.WORLD, return_argmax=True,
                                 return_correct=True)
    best = torch.where(y == -100, -1, (x.double() @ w.double().T).argmax(1))
    assert torch.equal(found.argmax.long(), best)
    assert torch.equal(found.correct.bool(), best == y)


def test_argmax_and_correct_are_over_all_ranks():
    run(3, _best)


def _no_label_here(rank, ranks):
    x, w, y = problem(ignored=False)
    y = y % SIZES[2][0]  # all labels are rank 0's
    mine = shard_of(w, rank, ranks).requires_grad_(True)
    loss = linear_cross_entropy(x, mine, y, group=dist.group.WORLD)
    wanted = reference.linear_cross_entropy(x, w, y)[0]
    expected, = torch.autograd.grad(wanted, [w])
    loss.backward()
    assert reference.relative(loss, wanted) < 1e-6
    assert reference.relative(mine.grad, expected.split(SIZES[2])[rank]) < 2e-5


def test_a_rank_without_any_label():
    run(2, _no_label_here)


def _all_ignored(rank, ranks):
    x, w, y = problem()
    mine = shard_of(w, rank, ranks).requires_grad_(True)
    loss = linear_cross_entropy(x, mine, torch.full_like(y, -100), group=dist.group.WORLD)
    loss.backward()
    assert loss == 0 and not mine.grad.any() and not x.grad.any()


def test_all_rows_ignored():
    run(2, _all_ignored)


def _bad_label(rank, ranks):
    x, w, y = problem()
    y[7] = CLASSES
    with pytest.raises(tilewright.UserError, match=f"row 7.*{CLASSES}|{CLASSES}.*row 7"):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD)


def test_a_label_of_no_rank_is_an_error_on_all():
    run(2, _bad_label)


def _sequence_parallel(rank, ranks):
    x, w, y = problem()
    wanted = reference.linear_cross_entropy(x, w, y)[0]
    d_x, d_w = torch.autograd.grad(wanted, [x, w])
    rows = x.detach().chunk(ranks)[rank].clone().requires_grad_(True)
    mine = shard_of(w, rank, ranks).requires_grad_(True)
    loss = linear_cross_entropy(rows, mine, y, group=dist.group.WORLD, dx_reduce="reduce_scatter")
    loss.backward()
    assert reference.relative(loss, wanted) < 1e-6
    assert reference.relative(rows.grad, d_x.chunk(ranks)[rank]) < 2e-5
    assert reference.relative(mine.grad, d_w.split(SIZES[ranks])[rank]) < 2e-5


def test_rows_over_ranks():
    run(2, _sequence_parallel)


def _parts_of_dx(rank, ranks):
    x, w, y = problem()
    expected, = torch.autograd.grad(reference.linear_cross_entropy(x, w, y)[0], [x])
    linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, dx_reduce="none").backward()
    part = x.grad.clone()
    dist.all_reduce(part)
    assert reference.relative(part, expected) < 2e-5


def test_the_caller_may_add_up_dx():
    run(2, _parts_of_dx)


def _sharded_weight(rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    x, w, y = problem()
    expected, = torch.autograd.grad(reference.linear_cross_entropy(x, w, y)[0], [w])
    mesh = init_device_mesh("cpu", (ranks,))
    weight = torch.nn.Parameter(distribute_tensor(w.detach(), mesh, [Shard(0)]))
    linear_cross_entropy(x.detach(), weight, y, group=mesh.get_group()).backward()
    assert reference.relative(weight.grad.full_tensor(), expected) < 2e-5


def test_a_sharded_dtensor():
    run(2, _sharded_weight)


def _over_a_mesh(rank, ranks, as_mesh, replicated):
    """The vocabulary over dimension tp of a mesh, the rows over dimension dp."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x, w, y = problem()
    expected, = torch.autograd.grad(reference.linear_cross_entropy(x, w, y, reduction="sum")[0], [w])
    if replicated:
        weight = distribute_tensor(w.detach(), mesh, [Replicate(), Shard(0)])
    else:
        weight = distribute_tensor(w.detach(), mesh["tp"], [Shard(0)])
    weight = torch.nn.Parameter(weight)
    part = mesh["dp"].get_local_rank()
    rows = x.detach().chunk(2)[part].clone().requires_grad_(True)
    labels = y.chunk(2)[part]
    loss = linear_cross_entropy(rows, weight, labels, reduction="sum",
                                group=mesh["tp"] if as_mesh else mesh["tp"].get_group())
    loss.backward()
    wanted = reference.linear_cross_entropy(rows, w, labels, reduction="sum")[0]
    assert reference.relative(loss, wanted) < 1e-6
    assert reference.relative(rows.grad, torch.autograd.grad(wanted, rows)[0]) < 2e-5
    d_weight = weight.grad.to_local().clone()
    dist.all_reduce(d_weight, group=mesh["dp"].get_group())  # as data parallelism does
    assert reference.relative(d_weight, expected.chunk(2)[mesh["tp"].get_local_rank()]) < 2e-5
    if not replicated:
        return
    with pytest.raises(tilewright.UserError, match="linear_weight: expected a DTensor sharded by its classes over"):
        both = distribute_tensor(w.detach(), mesh, [Shard(0), Shard(0)])  # as FSDP's beside tensor parallelism
        linear_cross_entropy(rows, both, labels, group=mesh["tp"])
    with pytest.raises(tilewright.UserError, match="a DeviceMesh of one dimension|a mesh of one dimension"):
        linear_cross_entropy(rows, weight, labels, group=mesh)


@pytest.mark.parametrize("as_mesh, replicated", [(False, False), (True, False), (True, True)])
def test_a_dtensor_over_a_named_dimension_of_a_mesh(as_mesh, replicated):
    run(4, _over_a_mesh, as_mesh, replicated)


def _disagree(rank, ranks):
    x, w, y = problem()
    with pytest.raises(tilewright.UserError, match="same z_loss on all ranks, found 0.3 on rank 0 and 1.3 on rank 1"):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, z_loss=0.3 + rank)


def test_ranks_that_ask_for_different_things_are_told():
    run(2, _disagree)


def _no_class_here(rank, ranks):
    x, w, y = problem()
    with pytest.raises(tilewright.UserError, match=r"group: expected 1 class or more on every rank, found \(50, 0\)"):
        linear_cross_entropy(x, w[:0] if rank else w, y, group=dist.group.WORLD)


def test_a_rank_without_classes_is_an_error_on_all():
    run(2, _no_class_here)


def _disagree_later(rank, ranks):
    x, w, y = problem()
    os.environ["TILEWRIGHT_CHECK_RANKS"] = "1"
    for z_loss in (0.0, 0.1):  # all ranks agreed on both
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, z_loss=z_loss)
    with pytest.raises(tilewright.UserError, match="on rank 0 and .* on rank 1"):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, z_loss=0.1 * rank)
    del os.environ["TILEWRIGHT_CHECK_RANKS"]


def test_a_debug_mode_compares_every_call():
    run(2, _disagree_later)


def _one_dies(rank, ranks):
    x, w, y = problem()
    linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD)
    if rank == 1:  # after its first gather, and before its part of dX is added up
        _sharded._Run._add_up = lambda *_: os._exit(0)
    with pytest.raises(RuntimeError):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD)


def _one_does_not_come(rank, ranks):
    group = dist.new_group(timeout=timedelta(seconds=3))
    x, w, y = problem()
    linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=group)
    if rank == 1:
        return time.sleep(6)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="[Tt]imed out|[Tt]imeout"):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=group)
    assert time.monotonic() - begin < 30


def test_nothing_hangs_past_the_timeout_of_the_group():
    ranks = Ranks(2)
    ranks.run(_one_does_not_come)
    ranks.stop()


def _is_gone_when_destroyed(rank, ranks):
    """Threads of a group that outlived destroy_process_group could abort the process at its end."""
    group = dist.new_group()
    options = cut_cross_entropy.VocabParallelOptions.from_vocab(CLASSES, group)
    x, w, y = problem()
    mine = w.detach()[options.start:options.stop].requires_grad_()
    linear_cross_entropy(x, mine, y, group=group).backward()
    cut_cross_entropy.linear_cross_entropy(x, mine, y, vocab_parallel_options=options).backward()
    loss = linear_cross_entropy(x, mine, y, group=group, reduction="none").sum()
    seen = weakref.ref(group)
    dist.barrier()
    dist.destroy_process_group(group)
    del group, options
    gc.collect()
    assert seen() is None
    with pytest.raises(tilewright.UserError, match="found one that was destroyed"):
        loss.backward()


def test_a_group_that_is_destroyed_is_not_kept():
    run(2, _is_gone_when_destroyed)


def _as_a_module(rank, ranks):
    x, w, y = problem()
    head = tilewright.torch.nn.LinearCrossEntropyLoss(HIDDEN, SIZES[ranks][rank], group=dist.group.WORLD,
                                                      dx_reduce="reduce_scatter")
    with torch.no_grad():
        head.linear.weight.copy_(shard_of(w, rank, ranks))
    loss = head(x.detach().chunk(ranks)[rank], y)
    loss.backward()
    wanted = reference.linear_cross_entropy(x, w, y)[0]
    expected, = torch.autograd.grad(wanted, [w])
    assert reference.relative(loss, wanted) < 1e-6
    assert reference.relative(head.linear.weight.grad, expected.split(SIZES[ranks])[rank]) < 2e-5


def test_a_module():
    run(2, _as_a_module)


def test_a_rank_that_dies_is_torchs_error_on_the_others():
    ranks = Ranks(2)
    ranks.run(_one_dies)
    ranks.stop()


def _wrong_reduction(rank, ranks):
    x, w, y = problem()
    with pytest.raises(tilewright.UserError, match="dx_reduce"):
        linear_cross_entropy(x, w, y, group=dist.group.WORLD, dx_reduce="sum")


def test_another_reduction_is_refused():
    run(1, _wrong_reduction)


def _monitored(rank, ranks):
    x, w, y = problem()
    alone = linear_cross_entropy(x.detach(), w.detach(), y, objective="prob", return_monitored=True)
    found = linear_cross_entropy(x.detach(), shard_of(w, rank, ranks), y, group=dist.group.WORLD, objective="prob",
                                 return_monitored=True)
    assert reference.relative(found.loss, alone.loss) < 3e-6
    assert reference.relative(found.monitored, alone.monitored) < 3e-6


def test_what_is_monitored_of_the_probability():
    run(3, _monitored)


def _in_chunks(rank, ranks, reduction):
    torch.manual_seed(3)
    x, w = torch.randn(600, HIDDEN, requires_grad=True), torch.randn(CLASSES, HIDDEN, requires_grad=True)
    y = torch.randint(0, CLASSES, (600,))
    y[:250] = -100
    wanted = reference.linear_cross_entropy(x, w, y, reduction=reduction)[0]
    d_x, d_w = torch.autograd.grad(wanted.sum(), [x, w])
    mine = shard_of(w, rank, ranks).requires_grad_(True)
    loss = linear_cross_entropy(x, mine, y, group=dist.group.WORLD, reduction=reduction, workspace_limit=150_000)
    loss.sum().backward()
    plans = [plan for plan, *_ in tilewright.torch.prepared_calls() if "2 at a time" in plan]
    assert plans, "the call was meant to have several chunks"
    assert reference.relative(loss, wanted) < 3e-6
    assert reference.relative(x.grad, d_x) < 2e-5
    assert reference.relative(mine.grad, d_w.split(SIZES[ranks])[rank]) < 2e-5


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_chunks_of_rows(reduction):
    run(2, _in_chunks, reduction)


def _different_needs(rank, ranks, needs, reduction, dx_reduce, dtype):
    """Each rank wants the gradients of what `needs` has for it: of x, of w."""
    x, w, y = problem(dtype)
    wanted = reference.linear_cross_entropy(x, w, y, reduction=reduction)[0].sum()
    d_x, d_w = torch.autograd.grad(wanted, [x, w])
    of_x, of_w = needs[rank]
    scatters = dx_reduce == "reduce_scatter"
    rows = (x.detach().chunk(ranks)[rank] if scatters else x.detach()).clone().requires_grad_(of_x)
    mine = shard_of(w, rank, ranks).requires_grad_(of_w)
    loss = linear_cross_entropy(rows, mine, y, group=dist.group.WORLD, reduction=reduction, dx_reduce=dx_reduce)
    loss.sum().backward()  # on all ranks, whatever they want
    tolerance = 2e-5 if dtype == torch.float32 else 8e-3
    assert (rows.grad is not None, mine.grad is not None) == (of_x, of_w)
    if of_x:
        assert reference.relative(rows.grad, d_x.chunk(ranks)[rank] if scatters else d_x) < tolerance
    if of_w:
        assert reference.relative(mine.grad, d_w.split(SIZES[ranks])[rank]) < tolerance


ALL, OF_X, OF_W, NONE = (True, True), (True, False), (False, True), (False, False)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("needs", [(ALL, OF_X), (ALL, OF_W), (OF_W, ALL), (OF_X, OF_W), (ALL, NONE), (NONE, OF_W)],
                         ids=str)
def test_ranks_may_want_different_gradients(needs, reduction):  # fla 1253
    run(2, _different_needs, needs, reduction, "all_reduce", torch.float32)


@pytest.mark.parametrize("needs", [(ALL, OF_X), (OF_W, ALL), (NONE, ALL)], ids=str)
def test_ranks_that_want_different_gradients_of_rows_over_ranks(needs):
    run(2, _different_needs, needs, "none", "reduce_scatter", torch.float32)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_ranks_that_want_different_gradients_of_16_bits(dtype, reduction):
    run(2, _different_needs, (ALL, OF_X), reduction, "all_reduce", dtype)
    run(2, _different_needs, (OF_W, ALL), reduction, "all_reduce", dtype)


def _parts_that_not_all_want(rank, ranks):
    """What rank 1 does not want it does not make, and its part of dX is not there for the caller to add up."""
    x, w, y = problem()
    x = x.detach().requires_grad_(rank == 0)
    linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, dx_reduce="none").backward()
    assert (x.grad is not None) == (rank == 0)


def test_no_reduction_and_different_gradients():
    run(2, _parts_that_not_all_want)


def _twice(rank, ranks):
    x, w, y = problem()
    mine = shard_of(w, rank, ranks).requires_grad_(True)
    loss = linear_cross_entropy(x, mine, y, group=dist.group.WORLD)
    first = [g.clone() for g in torch.autograd.grad(loss, [x, mine], retain_graph=True)]
    second = torch.autograd.grad(loss, [x, mine], torch.tensor(-2.0))
    for a, b in zip(first, second):
        assert reference.relative(b, -2 * a) < 2e-5


def test_a_second_backward_call():
    run(2, _twice)


def _row_weights(rank, ranks):
    x, w, y = problem()
    row_weight, class_weight = torch.rand(ROWS, requires_grad=True), torch.rand(CLASSES)
    wanted = reference.linear_cross_entropy(x, w, y, row_weight=row_weight, weight=class_weight)[0]
    expected = torch.autograd.grad(wanted, [x, row_weight])
    loss = linear_cross_entropy(x, shard_of(w, rank, ranks), y, row_weight=row_weight, group=dist.group.WORLD,
                                weight=shard_of(class_weight, rank, ranks))
    assert reference.relative(loss, wanted) < 3e-6
    for found, of_reference in zip(torch.autograd.grad(loss, [x, row_weight]), expected):
        assert reference.relative(found, of_reference) < 2e-5


def test_weights_of_rows():
    run(2, _row_weights)


def _onto_main_grad(rank, ranks):
    x, w, y = problem()
    expected, = torch.autograd.grad(reference.linear_cross_entropy(x, w, y, label_smoothing=0.1)[0], [w])
    mine = torch.nn.Parameter(shard_of(w, rank, ranks))
    mine.main_grad = torch.ones_like(mine)
    linear_cross_entropy(x, mine, y, group=dist.group.WORLD, label_smoothing=0.1, main_grad=True).backward()
    assert reference.relative(mine.main_grad - 1, expected.split(SIZES[ranks])[rank]) < 1e-4  # beside ones
    assert mine.grad is None


def test_a_main_gradient():
    run(2, _onto_main_grad)


_FIRST = ("variant=chunked chunk_rows=16 forward_rows=32 forward_columns=32 forward_step=0 dx_rows=32 dx_columns=32 "
          "dx_step=0 dw_rows=32 dw_columns=32 dw_step=0")


def _told_by_rank_0(rank, ranks, reduction):
    """Rank 0 has the configuration of a call of its own, without a group, and tells the others."""
    x, w, y = problem()
    wanted = reference.linear_cross_entropy(x, w, y, reduction=reduction)[0].sum()
    d_x, d_w = torch.autograd.grad(wanted, [x, w])
    mine = shard_of(w, rank, ranks).requires_grad_(True)
    text = [None]
    if rank == 0:
        linear_cross_entropy(x, mine, y.clamp(max=15), configuration=_FIRST)
        text[0] = tilewright.torch.prepared_calls()[-1].configuration
    dist.broadcast_object_list(text)
    assert "chunk_rows=16" in text[0]
    linear_cross_entropy(x, mine, y, group=dist.group.WORLD, reduction=reduction,
                         configuration=text[0]).sum().backward()
    assert tilewright.torch.prepared_calls()[-1].configuration == text[0]
    assert "2 at a time" in tilewright.torch.prepared_calls()[-1].description  # 24 rows: two chunks
    assert reference.relative(x.grad, d_x) < 2e-5
    assert reference.relative(mine.grad, d_w.split(SIZES[ranks])[rank]) < 2e-5


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_configuration_of_one_rank_is_given_to_all(reduction):
    run(2, _told_by_rank_0, reduction)


def _other_configurations(rank, ranks):
    x, w, y = problem()
    texts = [_FIRST.replace("chunk_rows=16", f"chunk_rows={rows}") for rows in (8, 24)]  # new to both ranks
    with pytest.raises(tilewright.UserError, match="same configuration .*chunk_rows=8 .* on rank 0 and .*chunk_rows=24 "
                                                   ".* on rank 1"):
        linear_cross_entropy(x, shard_of(w, rank, ranks), y, group=dist.group.WORLD, configuration=texts[rank])


def test_ranks_that_pin_different_configurations_are_told():
    run(2, _other_configurations)


def _compiled(rank, ranks, dx_reduce, options):
    """A step as one graph, with something before and after the loss; without, with and again without gradients."""
    x, w, y = problem()
    scatters = dx_reduce == "reduce_scatter"
    extras = options.get("return_entropy", False)
    class_weight = torch.rand(CLASSES) if options.pop("with_weight", False) else None

    def total(loss, entropy):
        return 2 * loss.sum() + (entropy.square().sum() if extras else 0)

    wanted, _, entropy = reference.linear_cross_entropy(
        torch.tanh(x), w, y, weight=class_weight, **{k: v for k, v in options.items() if not k.startswith("return_")})
    d_x, d_w = torch.autograd.grad(total(wanted, entropy), [x, w])
    rows = (x.detach().chunk(ranks)[rank] if scatters else x.detach()).clone().requires_grad_(True)
    mine = shard_of(w, rank, ranks).requires_grad_(True)
    my_class_weight = shard_of(class_weight, rank, ranks)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(rows, mine, y):
        out = linear_cross_entropy(torch.tanh(rows), mine, y, weight=my_class_weight, group=dist.group.WORLD,
                                   dx_reduce=dx_reduce, **options)
        return total(out.loss, out.entropy) if extras else total(out, None)

    for _ in range(2):
        rows.grad = mine.grad = None
        loss = step(rows, mine, y)
        loss.backward()
        assert reference.relative(loss, total(wanted, entropy)) < 3e-6
        assert reference.relative(rows.grad, d_x.chunk(ranks)[rank] if scatters else d_x) < 2e-5
        assert reference.relative(mine.grad, d_w.split(SIZES[ranks])[rank]) < 2e-5
    with torch.no_grad():
        assert reference.relative(step(rows, mine, y), loss) < 3e-6


@pytest.mark.parametrize("dx_reduce, options", [
    ("all_reduce", {"reduction": "none", "softcap": 5.0}),
    ("reduce_scatter", {"label_smoothing": 0.1, "with_weight": True}),
    ("reduce_scatter", {"return_entropy": True}),
], ids=str)
def test_a_whole_graph(dx_reduce, options):
    run(2, _compiled, dx_reduce, options)

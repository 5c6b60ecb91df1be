"""A vocabulary shared among processes gives what one process computes. With gloo, on the CPU: see ranks.py."""

import math

import pytest
import torch
import torch.distributed as dist

import reference
import tilewright
from ranks import CLASSES, HIDDEN, ROWS, SIZES, problem, run, same_on_all, shard_of, stop_all
from tilewright.torch import linear_cross_entropy


@pytest.fixture(scope="module", autouse=True)
def _processes():
    yield
    stop_all()


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

"""Where users of other libraries that share a vocabulary were hurt, and what torch does around the loss.

Each test names its trap; the numbers are those libraries' issues. Processes with gloo, on the CPU: see ranks.py.
"""

import pytest
import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

import reference
import tilewright
from ranks import CLASSES, HIDDEN, ROWS, SIZES, problem, run, same_on_all, shard_of, stop_all
from tilewright.torch import linear_cross_entropy


@pytest.fixture(scope="module", autouse=True)
def _processes():
    yield
    stop_all()


def _compare(loss, inputs, wanted, of_reference, rank, ranks, tolerance=2e-5):
    """The loss, and the gradients of (rows, this rank's weight), beside the unsharded loss in float64."""
    found = torch.autograd.grad(loss, inputs)
    d_x, d_w = torch.autograd.grad(wanted, of_reference)
    assert reference.relative(loss, wanted) < 3e-6
    assert reference.relative(found[0], d_x) < tolerance
    assert reference.relative(found[1], d_w.split(SIZES[ranks])[rank]) < tolerance


# ---- Errors of other libraries -----------------------------------------------------------------------------


def _smoothing(rank, ranks):
    x, w, y = problem()
    mine = shard_of(w, rank, ranks).requires_grad_()
    loss = linear_cross_entropy(x, mine, y, label_smoothing=0.3, group=dist.group.WORLD)
    log_p = (x.double() @ w.double().T).log_softmax(1)
    valid = y != -100
    over_all = -log_p[valid].mean()
    over_mine = -log_p[valid].split(SIZES[ranks], 1)[rank].mean()
    plain = linear_cross_entropy(x, mine, y, group=dist.group.WORLD)
    assert reference.relative(loss, 0.7 * plain + 0.3 * over_all) < 1e-5
    assert reference.relative(loss, 0.7 * plain + 0.3 * over_mine) > 1e-3  # so that the test can tell them apart
    _compare(loss, [x, mine], reference.linear_cross_entropy(x, w, y, label_smoothing=0.3)[0], [x, w], rank, ranks)


def test_smoothing_is_over_all_classes_and_not_over_a_shards():  # Megatron 7464
    run(2, _smoothing)


def _already_whole(rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    x, w, y = problem()
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
    for placement in (Replicate(), Shard(1)):
        weight = distribute_tensor(w.detach(), mesh, [placement])
        with pytest.raises(tilewright.UserError, match="linear_weight: expected a DTensor sharded by its classes over"):
            linear_cross_entropy(x, weight, y, group=mesh["tp"])
    # A plain tensor does not say what it is; its rows are taken as this rank's classes, of twice as many in all.
    with pytest.raises(tilewright.UserError, match=f"expected 0 to {2 * CLASSES - 1}"):
        linear_cross_entropy(x, w, torch.where(y == 1, 2 * CLASSES, y).index_fill(0, torch.tensor([3]), 2 * CLASSES),
                             group=mesh["tp"])


def test_a_weight_that_is_whole_already_is_refused():  # Megatron 7452
    run(2, _already_whole)


def _a_layer_before(rank, ranks, dx_reduce):
    """The gradient of what is before the loss is that of all classes, on every rank."""
    x, w, y = problem()
    before = torch.randn(HIDDEN, HIDDEN, requires_grad=True)
    mine = shard_of(w, rank, ranks).requires_grad_()
    hidden = torch.tanh(x @ before)
    if dx_reduce == "reduce_scatter":
        hidden = torch.tanh(x.chunk(ranks)[rank] @ before)
    loss = linear_cross_entropy(hidden, mine, y, group=dist.group.WORLD, dx_reduce=dx_reduce)
    found, = torch.autograd.grad(3 * loss, [before])
    if dx_reduce == "reduce_scatter":  # each rank's rows have their part of it, as in data parallelism
        dist.all_reduce(found)
    same_on_all(found)
    wanted = 3 * reference.linear_cross_entropy(torch.tanh(x @ before), w, y)[0]
    assert reference.relative(found, torch.autograd.grad(wanted, [before])[0]) < 2e-5


@pytest.mark.parametrize("dx_reduce", ["all_reduce", "reduce_scatter"])
def test_a_gradient_flows_through_the_reduction(dx_reduce):  # ms-swift 9947: an all-reduce without gradient
    run(2, _a_layer_before, dx_reduce)


def _different_requires_grad(rank, ranks):
    """Pipelines freeze the head on one rank alone: collectives that follow requires_grad would wait for ever."""
    x, w, y = problem()
    mine = shard_of(w, rank, ranks).requires_grad_(rank == 0)
    x = x.detach().requires_grad_(rank == 1)
    wanted_x, wanted_w, _ = problem()
    expected = torch.autograd.grad(reference.linear_cross_entropy(wanted_x, wanted_w, y)[0], [wanted_x, wanted_w])
    linear_cross_entropy(x, mine, y, group=dist.group.WORLD).backward()
    assert (x.grad is None, mine.grad is None) == ((True, False) if rank == 0 else (False, True))
    if rank == 0:
        assert reference.relative(mine.grad, expected[1].split(SIZES[ranks])[0]) < 2e-5
    else:
        assert reference.relative(x.grad, expected[0]) < 2e-5


def test_ranks_that_differ_in_requires_grad_do_not_hang():  # fla 1253
    run(2, _different_requires_grad)


def _labels_beside_the_shard(rank, ranks):
    """Tiles round a shard's classes up; a label of the next rank falls on what they add."""
    x, w, y = problem(ignored=False)
    end = SIZES[ranks][0]
    y = end + torch.arange(ROWS) % (CLASSES - end)
    y[::4] = end - 1  # the last class before
    mine = shard_of(w, rank, ranks).requires_grad_()
    loss = linear_cross_entropy(x, mine, y, group=dist.group.WORLD, reduction="none", return_correct=True)
    wanted = reference.linear_cross_entropy(x, w, y, reduction="none")[0]
    assert torch.allclose(loss.loss.double(), wanted, rtol=1e-5)
    assert torch.equal(loss.correct.bool(), (x @ w.T).argmax(1) == y)
    _compare(loss.loss.sum(), [x, mine], wanted.sum(), [x, w], rank, ranks)
    y[5] = CLASSES  # no class, and within the last shard's tile
    with pytest.raises(tilewright.UserError, match=f"label {CLASSES} in row 5 is no class"):
        linear_cross_entropy(x, mine, y, group=dist.group.WORLD)


def test_a_label_on_the_padding_of_a_shard():  # CCE 59
    run(2, _labels_beside_the_shard)


# ---- What torch does around the loss -----------------------------------------------------------------------


def _autocast(rank, ranks, dtype):
    x, w, y = problem()
    mine = shard_of(w, rank, ranks).requires_grad_()
    with torch.autocast("cpu", dtype):
        loss = linear_cross_entropy(x, mine, y, group=dist.group.WORLD)
    assert loss.dtype == torch.float32
    found = torch.autograd.grad(loss, [x, mine])
    assert found[0].dtype == found[1].dtype == torch.float32
    rounded = [tensor.detach().to(dtype).requires_grad_() for tensor in (x, w)]
    wanted = reference.linear_cross_entropy(*rounded, y)[0]
    d_x, d_w = torch.autograd.grad(wanted, rounded)
    assert reference.relative(loss, wanted) < 1e-4
    assert reference.relative(found[0], d_x) < 8e-3
    assert reference.relative(found[1], d_w.split(SIZES[ranks])[rank]) < 8e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype):
    run(2, _autocast, dtype)


def _twice_differentiated(rank, ranks, reduction):
    x, w, y = problem()
    mine = shard_of(w, rank, ranks).requires_grad_()
    loss = linear_cross_entropy(x, mine, y, group=dist.group.WORLD, reduction=reduction).sum()
    d_x, = torch.autograd.grad(loss, x, create_graph=True)
    wanted = reference.linear_cross_entropy(x, w, y, reduction=reduction)[0].sum()
    assert reference.relative(d_x, torch.autograd.grad(wanted, x)[0]) < 2e-5
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        d_x.square().sum().backward()


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_double_backward_is_refused(reduction):
    run(2, _twice_differentiated, reduction)


def _checkpointed(rank, ranks, reentrant):
    """The forward call is made again in the backward call, with its collectives, on all ranks alike."""
    x, w, y = problem()
    mine = shard_of(w, rank, ranks).requires_grad_()
    loss = checkpoint(lambda x, w: linear_cross_entropy(torch.tanh(x), w, y, group=dist.group.WORLD), x, mine,
                      use_reentrant=reentrant)
    loss.backward()
    wanted = reference.linear_cross_entropy(torch.tanh(x), w, y)[0]
    d_x, d_w = torch.autograd.grad(wanted, [x, w])
    assert reference.relative(loss, wanted) < 3e-6
    assert reference.relative(x.grad, d_x) < 2e-5
    assert reference.relative(mine.grad, d_w.split(SIZES[ranks])[rank]) < 2e-5


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    run(2, _checkpointed, reentrant)


def _batches(rank, ranks, reduction):
    """(batch, tokens, H), compared with the labels one place on."""
    x, w, y = problem()
    batch, labels = x.detach().view(3, -1, HIDDEN).requires_grad_(), y.view(3, -1)
    mine = shard_of(w, rank, ranks).requires_grad_()
    found = linear_cross_entropy(batch, mine, labels, shift=1, reduction=reduction, return_lse=True,
                                 group=dist.group.WORLD)
    assert found.loss.shape == ((3, labels.shape[1] - 1) if reduction == "none" else ())
    assert found.lse.shape == (3, labels.shape[1] - 1)
    wanted, lse, _ = reference.linear_cross_entropy(batch[:, :-1].flatten(0, 1), w, labels[:, 1:].flatten(),
                                                    reduction=reduction)
    assert torch.allclose(found.lse.flatten().double(), lse, rtol=1e-5)
    assert torch.allclose(found.loss.flatten().double(), wanted.flatten(), rtol=1e-5)
    _compare(found.loss.sum(), [batch, mine], wanted.sum(), [batch, w], rank, ranks)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_leading_dimensions_and_shift(reduction):
    run(2, _batches, reduction)


def _small_probabilities(rank, ranks):
    """Two classes share each row, one on each rank; the others have e^-30 = 2^-43 of what those have.

    reduction='none' makes the gradients from lse; the shifts of other reductions are a rank's own.
    """
    x, w, y = 30 * torch.eye(8, HIDDEN), torch.zeros(CLASSES, HIDDEN), torch.arange(8)
    for first in (0, SIZES[ranks][0]):
        w[first:first + 8] = torch.eye(8, HIDDEN)
    others = shard_of(w.sum(1) == 0, rank, ranks)
    x, w = x.bfloat16(), w.bfloat16().requires_grad_()
    expected, = torch.autograd.grad(reference.linear_cross_entropy(x, w.double(), y, reduction="sum")[0], w)
    expected = expected.split(SIZES[ranks])[rank][others]
    assert expected.any()
    for quiet_zeros in (True, False):
        mine = shard_of(w, rank, ranks).requires_grad_()
        loss = linear_cross_entropy(x, mine, y, reduction="none", quiet_zeros=quiet_zeros, group=dist.group.WORLD)
        loss.sum().backward()
        found = mine.grad[others]
        assert not found.any() if quiet_zeros else reference.relative(found, expected) < 1e-2


def test_small_probabilities_are_kept_where_asked_for():
    run(2, _small_probabilities)

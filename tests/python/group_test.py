"""What others' names and FSDP2's parameters come to in two processes (gloo, on the CPU).

Each function below without `test_` runs in both; what it raises fails the test of its name.
"""

import multiprocessing
import traceback
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

import tilewright.torch as tw
from tilewright.torch.compat import cut_cross_entropy, verl

N, H, SIZES = 12, 8, (19, 11)
V = sum(SIZES)


def problem(rank):
    """X, W, labels, and this rank's part of W."""
    torch.manual_seed(3)
    x, w = torch.randn(N, H, requires_grad=True), torch.randn(V, H, requires_grad=True)
    y = torch.randint(0, V, (N,))
    return x, w, y, w.detach().split(SIZES)[rank].clone().requires_grad_()


def check(ours, theirs, rank, x, w, mine, own_x=None):
    """The losses, dX (of `own_x`, else of x) and this rank's rows of dW."""
    assert torch.allclose(ours, theirs, atol=1e-5)
    expected = torch.autograd.grad(theirs, [x, w])
    found = torch.autograd.grad(ours, [x if own_x is None else own_x, mine])
    assert torch.allclose(found[0], expected[0], atol=1e-5)
    assert torch.allclose(found[1], expected[1].split(SIZES)[rank], atol=1e-5)


def verl_with_a_group(rank):
    x, w, y, mine = problem(rank)
    log_p, entropy = verl.linear_cross_entropy(x, mine, y, 0.7, dist_process_group=dist.group.WORLD)
    right = (x @ w.T / 0.7).log_softmax(1)
    check(log_p.sum() + entropy.square().sum(),
          right.gather(1, y[:, None]).sum() + (right.exp() * right).sum(1).square().sum(), rank, x, w, mine)


def cce_with_options(rank):
    x, w, y, mine = problem(rank)
    begin = sum(SIZES[:rank])
    options = cut_cross_entropy.VocabParallelOptions(begin, begin + SIZES[rank], dist.group.WORLD)
    for given in ({}, {"softcap": 9.0}, {"shift": 1}):
        ours, lse = cut_cross_entropy.linear_cross_entropy(x, mine, y, return_lse=True, vocab_parallel_options=options,
                                                           **given)
        logits = x @ w.T if "softcap" not in given else 9 * torch.tanh(x @ w.T / 9)
        logits, labels = (logits[:-1], y[1:]) if "shift" in given else (logits, y)
        assert torch.allclose(lse, logits.logsumexp(1), atol=1e-5)
        check(ours, F.cross_entropy(logits, labels), rank, x, w, mine)
    options.reduce_e_grad = False
    ours = cut_cross_entropy.linear_cross_entropy(x, mine, y, vocab_parallel_options=options)
    part = torch.autograd.grad(ours, x)[0]
    dist.all_reduce(part)
    assert torch.allclose(part, torch.autograd.grad(F.cross_entropy(x @ w.T, y), x)[0], atol=1e-5)


def cce_with_ranges_that_do_not_fit(rank):
    x, _, y, mine = problem(rank)
    whole = cut_cross_entropy.VocabParallelOptions.from_vocab(V)
    assert (whole.start, whole.stop) == ((0, 15), (15, 30))[rank]
    for begin, match in ((100, "that follow each other by rank"), (None, "expected 19 classes|expected 11 classes")):
        options = whole if begin is None else cut_cross_entropy.VocabParallelOptions(begin, begin + SIZES[rank])
        with pytest.raises(ValueError, match=match):
            cut_cross_entropy.linear_cross_entropy(x, mine, y, vocab_parallel_options=options)


class Head(torch.nn.Module):
    """Owns the head's weight, and makes the loss where FSDP has gathered it."""

    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight.detach().clone())

    def forward(self, x, y):
        return tw.linear_cross_entropy(x, self.weight, y)


def fsdp2_parameters(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    x, w, y, _ = problem(rank)
    head = fully_shard(Head(w), mesh=init_device_mesh("cpu", (2,)))
    with pytest.raises(ValueError, match="linear_weight: expected a tensor of this process, found a DTensor"):
        tw.linear_cross_entropy(x, head.weight, y)
    loss = head(x, y)  # in its forward the weight is whole
    right = F.cross_entropy(x @ w.T, y)
    assert torch.allclose(loss, right, atol=1e-5)
    loss.backward()
    expected = torch.autograd.grad(right, w)[0]
    assert torch.allclose(head.weight.grad.full_tensor(), expected, atol=1e-5)  # the mean of two equal ones
    with pytest.raises(ValueError, match="gather it"):
        tw.linear_cross_entropy(x, head.weight, y)
    gathered = tw.linear_cross_entropy(x, head.weight.full_tensor(), y)
    assert torch.allclose(gathered, right, atol=1e-5)
    gathered.backward()


FUNCTIONS = [verl_with_a_group, cce_with_options, cce_with_ranges_that_do_not_fit, fsdp2_parameters]


def _serve(rank, store, connection):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2,
                            timeout=timedelta(seconds=60))
    for function in FUNCTIONS:
        try:
            function(rank)
            connection.send(None)
        except BaseException:
            connection.send(traceback.format_exc())
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    """By a function's name: what each rank raised."""
    store = tmp_path_factory.mktemp("group") / "store"
    context = multiprocessing.get_context("spawn")
    ends = [context.Pipe() for _ in range(2)]
    ranks = [context.Process(target=_serve, args=(rank, store, ends[rank][1]), daemon=True) for rank in range(2)]
    for process in ranks:
        process.start()
    found = {function.__name__: [end[0].recv() if end[0].poll(240) else "no answer" for end in ends]
             for function in FUNCTIONS}
    for process in ranks:
        process.join(20)
        process.kill()
    return found


@pytest.mark.parametrize("name", [function.__name__ for function in FUNCTIONS])
def test_in_two_processes(failures, name):
    if name == "fsdp2_parameters" and torch.__version__ < "2.7":
        pytest.skip(f"FSDP2 of torch {torch.__version__} takes no CPU")
    assert failures[name] == [None, None], "\n".join(map(str, failures[name]))

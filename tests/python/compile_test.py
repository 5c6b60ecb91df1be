"""torch.compile(fullgraph=True) and the operations as torch's dispatcher knows them."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

import tilewright.torch as tw

N, H, V = 24, 16, 101


def problem(device):
    x = torch.randn(N, H, device=device, requires_grad=True)
    w = torch.randn(V, H, device=device, requires_grad=True)
    y = torch.randint(0, V, (N,), device=device)
    y[::3] = -100
    return x, w, y


def check(ours, theirs, inputs):
    assert torch.allclose(ours, theirs, atol=1e-5)
    for a, b in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(theirs, inputs)):
        assert torch.allclose(a, b, atol=1e-5)


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_fullgraph_with_ignored_rows(device, backend, reduction):  # Liger 1338, flashinfer 2733
    x, w, y = problem(device)

    @torch.compile(fullgraph=True, backend=backend)
    def step(x, w, y):
        return 2 * tw.linear_cross_entropy(torch.tanh(x), w, y, reduction=reduction).sum()

    check(step(x, w, y), 2 * F.cross_entropy(F.linear(torch.tanh(x), w), y, reduction=reduction).sum(), [x, w])
    all_ignored = torch.full_like(y, -100)
    assert step(x, w, all_ignored).item() == 0


def test_fullgraph_with_options_and_extras(device):
    x, w, y = problem(device)
    bias = torch.randn(V, device=device, requires_grad=True)
    weights = torch.rand(N, device=device)

    def step(x, w, bias, y):
        out = tw.linear_cross_entropy(x.view(4, 6, H), w, y.view(4, 6), linear_bias=bias, shift=1,
                                      row_weight=weights.view(4, 6), softcap=8.0, return_entropy=True,
                                      return_lse=True, return_correct=True)
        return out.loss + out.entropy.mean() + (out.lse * out.correct).sum()

    check(torch.compile(step, fullgraph=True, backend="aot_eager")(x, w, bias, y), step(x, w, bias, y), [x, w, bias])


def test_fullgraph_other_functions(device):
    x, w, y = problem(device)

    def step(x, w):
        log_p, entropy = tw.selected_log_probs(x, w, y, temperature=0.5)
        return log_p.sum() + entropy.sum() + tw.cross_entropy(x @ w.T, y)

    check(torch.compile(step, fullgraph=True, backend="aot_eager")(x, w), step(x, w), [x, w])


def test_fullgraph_under_autocast_and_without_gradients(device):
    x, w, y = problem(device)

    def step(x, w):
        with torch.autocast(device, torch.bfloat16):
            return tw.linear_cross_entropy(x, w, y)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    check(compiled(x, w), step(x, w), [x, w])
    with torch.no_grad():
        assert torch.equal(compiled(x, w), step(x, w))


def test_another_number_of_rows_breaks_no_graph(device):
    x, w, y = problem(device)
    compiled = torch.compile(lambda x, w, y: tw.linear_cross_entropy(x, w, y), fullgraph=True, backend="aot_eager",
                             dynamic=True)
    for rows in (N, 17, 9):
        check(compiled(x[:rows], w, y[:rows]), F.cross_entropy(F.linear(x[:rows], w), y[:rows]), [x, w])


def test_shapes_without_memory():
    with FakeTensorMode():
        x, w = torch.empty(8, 4, requires_grad=True), torch.empty(11, 4, requires_grad=True)
        y = torch.empty(8, dtype=torch.int64)
        tw.linear_cross_entropy(x, w, y).backward()
        assert x.grad.shape == x.shape and w.grad.shape == w.shape
        assert tw.cross_entropy(torch.empty(8, 11), y, reduction="none").shape == (8,)


@pytest.mark.parametrize("gradients", [False, True])
def test_opcheck(device, gradients):
    x, w, y = (t.detach() for t in problem(device))
    options = (0, -100, 0.1, 0.0, 1.0, 0.0)
    linear = (*options, None, 0, True, 0, None)
    types = (torch.float32, torch.float32, None) if gradients else (None, None, None)
    ops = torch.ops.tilewright
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(ops.linear_forward.default,
                          (x, w, y, None, None, None, *linear, [True, True, False, True], *types), test_utils=checks)
    lse = (x @ w.T).logsumexp(1)
    torch.library.opcheck(ops.linear_backward.default,
                          (x, w, y, None, None, lse, torch.ones((), device=device), None, None, *linear,
                           torch.float32, torch.float32, None), test_utils=checks)
    torch.library.opcheck(ops.logits_forward.default, (x @ w.T, y, None, *options, [True, False, False, False]),
                          test_utils=checks)

"""Calls whose tensors are already as kernels read them go a shorter way, which has to come to the same."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

import tilewright
import tilewright.torch as tw
from tilewright.torch import _calls, _plans

N, H, V = 24, 16, 101


def problem(device, *leading):
    x = torch.randn(*(leading or (N,)), H, device=device, requires_grad=True)
    w = torch.randn(V, H, device=device, requires_grad=True)
    return x, w, torch.randint(0, V, leading or (N,), device=device)


def eager(x, w, y, **options):
    return F.cross_entropy(F.linear(x, w).flatten(0, -2), y.flatten(), **options)


def check(x, w, y, ours=None):
    ours = tw.linear_cross_entropy(x, w, y) if ours is None else ours
    theirs = eager(x, w, y)
    assert torch.allclose(ours, theirs, atol=1e-5)
    for a, b in zip(torch.autograd.grad(ours, [x, w]), torch.autograd.grad(theirs, [x, w])):
        assert a.shape == b.shape and torch.allclose(a, b, atol=1e-5)


@pytest.fixture
def direct(monkeypatch):
    """How many calls went the short way."""
    taken = []
    real = _plans.Asked.run
    monkeypatch.setattr(_plans.Asked, "run", lambda *a: taken.append(real(*a)) or taken[-1])
    return lambda: sum(made is not None for made in taken)


@pytest.mark.parametrize("leading", [(), (N,), (4, 6), (2, 3, 4)])
def test_leading_dimensions_need_no_view(device, direct, leading):
    x, w, y = problem(device, *leading)
    for _ in range(3):
        check(x, w, y)
    assert direct() == 3
    rows = tw.linear_cross_entropy(x, w, y, reduction="none", return_argmax=True)
    assert direct() == 4 and rows.loss.shape == rows.argmax.shape == y.shape
    torch.autograd.grad(rows.loss.sum(), [x, w])


def test_one_row_without_dimensions(device, direct):
    x, w, y = problem(device)
    ours = tw.linear_cross_entropy(x[3], w, y[3], reduction="none")
    assert direct() == 1 and ours.shape == ()
    assert torch.allclose(ours, eager(x[3:4], w, y[3:4]), atol=1e-5)


def test_bias_and_class_weights(device, direct):
    x, w, y = problem(device)
    bias, weight = torch.randn(V, device=device, requires_grad=True), torch.rand(V, device=device)
    ours = tw.linear_cross_entropy(x, w, y, linear_bias=bias, weight=weight)
    theirs = F.cross_entropy(F.linear(x, w, bias), y, weight=weight)
    assert direct() == 1
    for a, b in zip(torch.autograd.grad(ours, [x, w, bias]), torch.autograd.grad(theirs, [x, w, bias])):
        assert torch.allclose(a, b, atol=1e-5)


def test_what_is_not_as_kernels_read_it_goes_the_other_way(device, direct):
    x, w, y = problem(device)
    check(x, w, y)
    flat = torch.randn(N * H + 1, device=device)
    for offset in (0, 1):  # the second one's address is no multiple of 16 bytes
        check(flat[offset:offset + N * H].view(N, H).detach().requires_grad_(), w, y)
    assert direct() == 2
    tw.linear_cross_entropy(torch.randn(H, N, device=device).T, w, y)
    tw.linear_cross_entropy(x, w, y, row_weight=torch.ones(N, device=device))
    tw.linear_cross_entropy(x, w, y, shift=1)
    with torch.autocast(device, torch.bfloat16):
        tw.linear_cross_entropy(x, w, y)
    assert direct() == 2


def test_modes_see_the_operations(device):
    x, w, y = problem(device)
    check(x, w, y)
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            seen.append(str(function))
            return function(*arguments, **(named or {}))

    with Watch():
        tw.linear_cross_entropy(x, w, y)
    assert any("linear_forward" in name for name in seen)
    with FakeTensorMode():
        fake = torch.empty(N, H, requires_grad=True)
        tw.linear_cross_entropy(fake, torch.empty(V, H), torch.empty(N, dtype=torch.int64)).backward()
        assert fake.grad.shape == fake.shape
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda x: tw.linear_cross_entropy(x, w, y))(x)
    check(x, w, y)


def test_prepared_under_inference_mode_then_used_in_training(device):
    tw.forget_prepared_calls()
    x, w, y = problem(device)
    with torch.inference_mode():
        loss = tw.linear_cross_entropy(x, w, y)
    assert loss.is_inference()
    check(x, w, y)
    tw.forget_prepared_calls()
    with torch.inference_mode():
        tw.linear_cross_entropy(*problem(device))
    ours = tw.linear_cross_entropy(x, w, y)
    assert not ours.is_inference()
    check(x, w, y, ours)


def test_a_bad_label_leaves_the_call_usable(device):
    x, w, y = problem(device)
    check(x, w, y)
    bad = y.clone()
    bad[5] = V
    with pytest.raises(tilewright.UserError, match="row 5"):
        tw.linear_cross_entropy(x, w, bad)
        tw.check()
    check(x, w, y)


def test_a_call_that_is_used_is_not_the_one_that_is_dropped(device, monkeypatch):
    tw.forget_prepared_calls()
    monkeypatch.setattr(_calls._cache, "_capacity", 2)
    x, w, y = problem(device)
    tw.linear_cross_entropy(x, w, y)
    kept = _calls._cache.values()[0]
    for rows in (1, 2, 3, 4):
        tw.linear_cross_entropy(x, w, y)
        tw.linear_cross_entropy(x[:rows], w, y[:rows])
    assert kept in _calls._cache.values() and len(_calls._cache.values()) == 2
    tw.forget_prepared_calls()
    check(x, w, y)


def test_threads_of_different_shapes(device):
    problems = [problem(device), problem(device, 4, 6), problem(device, 7)]
    expected = [torch.autograd.grad(tw.linear_cross_entropy(*p), p[:2]) for p in problems]
    wrong = []

    def work(p, right):
        for _ in range(30):
            found = torch.autograd.grad(tw.linear_cross_entropy(*p), p[:2])
            if not all(map(torch.equal, found, right)):
                wrong.append(1)

    threads = [threading.Thread(target=work, args=given) for given in list(zip(problems, expected)) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

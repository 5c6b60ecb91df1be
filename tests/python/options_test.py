"""Every option against float64 autograd, by gradcheck, and torch's own function as oracle."""

import pytest
import reference
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

import tilewright.torch as tw

N, H, V = 37, 24, 301


def problem(device, dtype=torch.float32, n=N, h=H, v=V):
    x = torch.randn(n, h).to(device, dtype).requires_grad_()
    w = (torch.randn(v, h) * 0.5).to(device, dtype).requires_grad_()
    y = torch.randint(0, v, (n,)).to(device)
    y[::5] = -100
    return x, w, y


def options(device, n=N, v=V):
    """Keywords by name; each test takes them from here, with tensors on its device."""
    bias = torch.randn(v).to(device).requires_grad_()
    weight = torch.rand(v).to(device)
    row_weight = torch.rand(n).to(device).requires_grad_()
    return {
        "plain": {},
        "bias": {"linear_bias": bias},
        "class weights": {"weight": weight},
        "smoothing": {"label_smoothing": 0.2},
        "z loss": {"z_loss": 0.01},
        "scale": {"logit_scale": 0.7},
        "softcap": {"softcap": 5.0},
        "margin": {"margin": (0.35, 8.0)},
        "row weights": {"row_weight": row_weight},
        "row and class weights": {"row_weight": row_weight, "weight": weight},
        "all but margin": {"linear_bias": bias, "weight": weight, "label_smoothing": 0.1, "z_loss": 0.01,
                           "logit_scale": 0.8, "softcap": 9.0},
    }


NAMES = list(options("cpu"))


def compare(found, expected, inputs, allowed):
    assert found.dtype == torch.float32
    assert abs(float((found - expected).detach().norm())) <= 1e-5 * max(1.0, float(expected.detach().norm()))
    upstream = torch.rand(expected.shape, device=expected.device) + 0.5
    ours = torch.autograd.grad(found, inputs, upstream)
    theirs = torch.autograd.grad(expected, inputs, upstream.double())
    for mine, right, tensor in zip(ours, theirs, inputs):
        assert mine.dtype == tensor.dtype and mine.shape == tensor.shape
        assert reference.relative(mine, right) < allowed, tensor.shape


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", NAMES)
def test_option_against_float64(device, name, reduction):
    x, w, y = problem(device)
    given = options(device)[name]
    inputs = [x, w, *(t for t in given.values() if isinstance(t, torch.Tensor) and t.requires_grad)]
    found = tw.linear_cross_entropy(x, w, y, reduction=reduction, **given)
    expected, _, _ = reference.linear_cross_entropy(x, w, y, reduction=reduction, **given)
    compare(found, expected, inputs, 2e-5)


@pytest.mark.parametrize("dtype,allowed", [(torch.float32, 2e-5), (torch.bfloat16, 6e-3), (torch.float16, 1e-3)])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_types_against_float64(device, dtype, allowed, reduction):
    x, w, y = problem(device, dtype, 64, 32, 512)
    found = tw.linear_cross_entropy(x, w, y, reduction=reduction)
    expected, _, _ = reference.linear_cross_entropy(x, w, y, reduction=reduction)
    compare(found, expected, [x, w], allowed)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradients_of_lse_and_entropy(device, reduction):
    x, w, y = problem(device)
    out = tw.linear_cross_entropy(x, w, y, reduction=reduction, return_lse=True, return_entropy=True)
    loss, lse, entropy = reference.linear_cross_entropy(x, w, y, reduction=reduction)
    u, v = torch.randn(N, device=device), torch.randn(N, device=device)
    compare(2 * out.loss.sum() + (out.lse * u).sum() + (out.entropy * v).sum(),
            2 * loss.sum() + (lse * u).sum() + (entropy * v).sum(), [x, w], 2e-5)


def test_what_is_returned(device):
    x, w, y = problem(device)
    out = tw.linear_cross_entropy(x, w, y, return_lse=True, return_entropy=True, return_correct=True,
                                  return_argmax=True)
    logits = (x @ w.T).detach()
    valid = y != -100
    assert torch.equal(out.argmax[valid].long(), logits.argmax(1)[valid])
    assert torch.equal(out.correct.bool(), (logits.argmax(1) == y) & valid)
    assert torch.allclose(out.lse[valid], logits.logsumexp(1)[valid], atol=1e-5)
    assert torch.equal(out.argmax[~valid], torch.full_like(out.argmax[~valid], -1))
    assert not out.lse[~valid].any() and not out.entropy[~valid].any()
    assert tw.linear_cross_entropy(x, w, y).shape == ()


def check_gradients(function, *inputs, nondet_tol=0.0):
    """torch's gradcheck, in float32: the step and what is allowed are as wide as that takes."""
    assert gradcheck(function, inputs, eps=1e-2, atol=3e-3, rtol=1e-2, nondet_tol=nondet_tol)


@pytest.mark.filterwarnings("ignore:Input #")
@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(device, name):
    x, w, y = problem(device, n=6, h=5, v=11)
    given = options(device, 6, 11)[name]
    trained = [key for key, value in given.items() if getattr(value, "requires_grad", False)]
    inputs = [x, w, *(given[key] for key in trained)]

    def of_rows(x, w, *others):
        out = tw.linear_cross_entropy(x, w, y, **{**given, **dict(zip(trained, others))}, return_lse=True,
                                      return_entropy=True, reduction="none")
        return out.loss, out.lse, out.entropy

    check_gradients(of_rows, *inputs)
    # The first backward call scales saved gradients, a second makes them again: other sums, other last bits.
    check_gradients(lambda x, w, *others: tw.linear_cross_entropy(x, w, y, **{**given, **dict(zip(trained, others))}),
                    *inputs, nondet_tol=1e-5)


@pytest.mark.filterwarnings("ignore:Input #")
@pytest.mark.parametrize("given", [{}, {"temperature": 0.7, "softcap": 5.0}], ids=str)
def test_gradcheck_of_selected_log_probs(device, given):
    x, w, y = problem(device, n=6, h=5, v=11)
    bias = torch.randn(11, device=device, requires_grad=True)
    check_gradients(lambda x, w, b: tw.selected_log_probs(x, w, y, linear_bias=b, **given), x, w, bias)


@pytest.mark.filterwarnings("ignore:Input #")
@pytest.mark.parametrize("given", [
    {}, {"weighted": True, "label_smoothing": 0.1, "z_loss": 0.01, "logit_scale": 0.8, "softcap": 4.0}], ids=str)
def test_gradcheck_of_cross_entropy(device, given):
    given = dict(given)
    weight = torch.rand(11, device=device) if given.pop("weighted", False) else None
    z, y = torch.randn(6, 11, device=device, requires_grad=True), problem(device, n=6, h=5, v=11)[2]

    def of_rows(z):
        out = tw.cross_entropy(z, y, weight, reduction="none", return_lse=True, return_entropy=True, **given)
        return out.loss, out.lse, out.entropy

    check_gradients(of_rows, z)
    check_gradients(lambda z: tw.cross_entropy(z, y, weight, **given), z)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_torch_as_oracle(device, reduction, smoothing, weighted):
    x, w, y = problem(device)
    weight = torch.rand(V, device=device) if weighted else None
    found = tw.linear_cross_entropy(x, w, y, weight=weight, reduction=reduction, label_smoothing=smoothing)
    expected = F.cross_entropy(F.linear(x, w), y, weight, reduction=reduction, label_smoothing=smoothing)
    compare(found, expected.double(), [x, w], 1e-4)


def test_leading_dimensions_and_shift(device):
    x = torch.randn(3, 9, H, device=device, requires_grad=True)
    w = torch.randn(V, H, device=device, requires_grad=True)
    y = torch.randint(0, V, (3, 9), device=device)
    for reduction in ("mean", "none"):
        found = tw.linear_cross_entropy(x, w, y, shift=1, reduction=reduction)
        expected = F.cross_entropy(F.linear(x[:, :-1], w).flatten(0, 1), y[:, 1:].flatten(), reduction=reduction)
        assert found.shape == (() if reduction == "mean" else (3, 8))
        compare(found, expected.view(found.shape).double(), [x, w], 1e-4)
    assert tw.linear_cross_entropy(x, w, y, reduction="none").shape == (3, 9)
    assert tw.linear_cross_entropy(x[0, 0], w, y[0, 0]).shape == ()
    weights = torch.rand(3, 8, device=device)
    whole = tw.linear_cross_entropy(x, w, y, shift=1, reduction="none", row_weight=weights)
    assert torch.allclose(whole, weights * tw.linear_cross_entropy(x, w, y, shift=1, reduction="none"))


def test_selected_log_probs(device):
    x, w, y = problem(device)
    log_p, entropy = tw.selected_log_probs(x, w, y, temperature=0.7)
    loss, _, right = reference.linear_cross_entropy(x, w, y, reduction="none", logit_scale=1 / 0.7)
    u = torch.randn(N, device=device)
    compare((log_p * u).sum() + entropy.sum(), (-loss * u).sum() + right.sum(), [x, w], 2e-5)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_cross_entropy_over_logits(device, reduction, inplace):
    given = {"label_smoothing": 0.1, "z_loss": 0.01, "softcap": 4.0, "reduction": reduction}
    z = torch.randn(N, V, device=device, requires_grad=True)
    y = problem(device)[2]
    weight = torch.rand(V, device=device)
    found = tw.cross_entropy(z * 1.0, y, weight, inplace_backward=inplace, **given)
    given.pop("softcap")
    expected, _, _ = reference.over_logits(4 * torch.tanh(z.double() / 4), y, weight=weight, **given)
    compare(found, expected, [z], 2e-5)


def test_cross_entropy_extras_have_gradients(device):
    z = torch.randn(2, N, V, device=device, requires_grad=True)
    y = torch.randint(0, V, (2, N), device=device)
    out = tw.cross_entropy(z, y, return_lse=True, return_entropy=True, return_argmax=True, return_correct=True)
    assert out.lse.shape == out.argmax.shape == (2, N)
    loss, lse, entropy = reference.over_logits(z.reshape(-1, V), y.reshape(-1))
    compare(out.loss + out.lse.square().sum() + out.entropy.sum(), loss + lse.square().sum() + entropy.sum(), [z],
            2e-5)


def test_module(device):
    module = tw.nn.LinearCrossEntropyLoss(H, V, bias=True, label_smoothing=0.1, device=device)
    x, _, y = problem(device)
    expected = F.cross_entropy(module.linear(x), y, label_smoothing=0.1)
    compare(module(x, y), expected.double(), [x, *module.parameters()], 1e-4)
    assert set(module.state_dict()) == {"linear.weight", "linear.bias"}


def test_workspace_limit(device):
    x, w, y = problem(device, n=256, v=4096)
    assert torch.allclose(tw.linear_cross_entropy(x, w, y, workspace_limit=1 << 20), tw.linear_cross_entropy(x, w, y))
    with pytest.raises(ValueError, match="workspace"):
        tw.linear_cross_entropy(x, w, y, workspace_limit=1)


def test_small_probabilities_are_kept_where_asked_for(device):
    """bfloat16 gradients take probabilities below 2^-30 as 0, unless quiet_zeros=False."""
    x = 30 * torch.eye(8, H, device=device)  # logits: 30 of the label, 0 of all others, whose share is e^-30 = 2^-43
    x, w, y = x.bfloat16(), torch.eye(V, H, device=device).bfloat16().requires_grad_(), torch.arange(8, device=device)
    exact = w.detach().double().requires_grad_()
    expected, = torch.autograd.grad(reference.linear_cross_entropy(x, exact, y, reduction="sum")[0], exact)
    for quiet_zeros in (True, False):
        loss = tw.linear_cross_entropy(x, w, y, reduction="sum", quiet_zeros=quiet_zeros)
        found, = torch.autograd.grad(loss, w)
        assert not found[8:].any() if quiet_zeros else reference.relative(found[8:], expected[8:]) < 1e-2

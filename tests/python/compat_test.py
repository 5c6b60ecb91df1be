"""Other libraries' names and signatures over ours, and the patches with their undoing."""

import inspect

import pytest
import reference
import torch
import torch.nn.functional as F

import tilewright.torch as tw
from tilewright.torch import compat
from tilewright.torch.compat import cut_cross_entropy, lcel, liger, mevo, quack, verl

N, H, V = 24, 16, 101


@pytest.fixture
def problem(device):
    x = torch.randn(N, H, device=device, requires_grad=True)
    w = torch.randn(V, H, device=device, requires_grad=True)
    y = torch.randint(0, V, (N,), device=device)
    return x, w, y


def check(ours, theirs, inputs):
    assert torch.allclose(ours.double(), theirs.double(), rtol=1e-5, atol=1e-5)
    for a, b in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(theirs, inputs)):
        assert reference.relative(a, b) < 1e-4


def ignoring(y):
    y = y.clone()
    y[::4] = -100
    return y


def test_liger(problem):
    x, w, y = problem
    y = ignoring(y)
    weight = torch.rand(V, device=x.device)
    out = liger.liger_fused_linear_cross_entropy(x, w, y, None, weight, -100, 0.01, 0.1, "mean", 8.0, True,
                                                 return_token_accuracy=True, return_predicted_tokens=True)
    loss, lse, _ = reference.linear_cross_entropy(x, w, y, weight=weight, z_loss=0.01, label_smoothing=0.1,
                                                  softcap=8.0)
    check(out.loss, loss, [x, w])
    valid = y != -100
    assert torch.allclose(out.z_loss.double(), 0.01 * lse.square().sum() / valid.sum())
    guess = (x @ w.T).argmax(1)
    assert torch.allclose(out.token_accuracy, (guess == y)[valid].float().mean())
    assert torch.equal(out.predicted_tokens[valid], guess[valid])
    module = liger.LigerFusedLinearCrossEntropyLoss(reduction="sum")
    check(module(w, x, y), F.cross_entropy(x @ w.T, y, reduction="sum"), [x, w])


def test_liger_token_scaling(problem):
    x, w, y = problem
    rows = F.cross_entropy(x @ w.T, y, reduction="none")
    check(liger.liger_fused_linear_cross_entropy(x, w, y, use_token_scaling=True),
          (rows * (-rows).exp().detach()).mean(), [x, w])


def test_cut_cross_entropy(device):
    e = torch.randn(3, 8, H, device=device, requires_grad=True)
    c = torch.randn(V, H, device=device, requires_grad=True)
    y = torch.randint(0, V, (3, 8), device=device)
    loss, lse = cut_cross_entropy.linear_cross_entropy(e, c, y, softcap=9.0, shift=True, return_lse=True,
                                                       filter_eps="high", impl="cce")
    logits = 9 * torch.tanh(e[:, :-1] @ c.T / 9)
    check(loss, F.cross_entropy(logits.flatten(0, 1), y[:, 1:].flatten()), [e, c])
    assert torch.allclose(lse, logits.logsumexp(-1), atol=1e-5)
    module = cut_cross_entropy.LinearCrossEntropy(reduction="none", shift=1)
    assert module(e, c, y).shape == (3, 7)


def test_quack(problem):
    x, w, y = problem
    expected = F.cross_entropy(x @ w.T, y)
    check(quack.chunked_linear_cross_entropy(x, w, y, 4096, -100, "mean", True), expected, [x, w])
    module = quack.LinearCrossEntropy(H, V, bias=True, device=x.device)
    check(module(x, y), F.cross_entropy(F.linear(x, module.weight, module.bias), y), [x, *module.parameters()])


def test_lcel(problem):
    x, w, y = problem
    At = w.detach().T.contiguous().requires_grad_()
    loss, z_value, largest, entropy, norm = lcel.linear_cross_entropy(x, y, At, z_regularization=0.01, logit_scale=0.5,
                                                                      monitoring=True)
    right, lse, entropies = reference.linear_cross_entropy(x, At.T, y, z_loss=0.01, logit_scale=0.5)
    check(loss, right, [x, At])
    assert torch.allclose(z_value.double(), lse.square().mean())
    assert torch.allclose(entropy.double(), entropies.mean())
    logits = 0.5 * x @ At
    assert torch.allclose(largest, logits.max()) and torch.allclose(norm, logits.norm(dim=1).mean())
    plain = lcel.linear_cross_entropy(x, y, At, z_regularization=0.01, logit_scale=0.5)
    assert torch.allclose(plain[1], z_value) and torch.allclose(plain[0], loss) and not any(plain[2:])
    module = lcel.LinearCrossEntropyLoss(H, V, device=x.device)
    module.monitoring = True
    check(module(x, y), F.cross_entropy(x @ module.weight, y), [x, module.weight])
    assert set(module.latest_metrics) == {"logit_norm", "logit_max", "logit_entropy", "z_value"}
    assert all(map(torch.isfinite, module.latest_metrics.values()))


def test_mevo(problem):
    x, w, y = problem
    module = mevo.MemoryEfficientVocabOutput(torch.nn.Parameter(w.detach().clone()), scale=8.0, reduction="mean")
    right, _, _ = reference.linear_cross_entropy(x, module.proj_weight, y, margin=(0.35, 8.0))
    check(module(x, y), right, [x, module.proj_weight])
    plain = mevo.MemoryEfficientVocabOutput(module.proj_weight)
    check(plain(x.view(4, 6, H), y.view(4, 6)), F.cross_entropy(x @ module.proj_weight.T, y, reduction="sum"),
          [x, module.proj_weight])
    plain.log_softmax = False
    check(plain(x, y), F.nll_loss((x @ module.proj_weight.T).softmax(1), y, reduction="sum"), [x, module.proj_weight])
    assert plain.eval()(x, y).shape == (N, V)


@pytest.mark.parametrize("reduction", ["none", None, "mean"])
def test_verl(problem, reduction):
    x, w, y = problem
    log_p, entropy = verl.linear_cross_entropy(x.view(4, 6, H), w, y.view(4, 6), 0.7, reduction)
    all_p = (x @ w.T / 0.7).log_softmax(1)
    picked = all_p.gather(1, y[:, None])[:, 0]
    right = -(all_p.exp() * all_p).sum(1)
    check(log_p.sum() + entropy.square().sum(), (picked.mean() if reduction == "mean" else picked.sum())
          + right.square().sum(), [x, w])


def test_patch_torch(problem):
    x, w, y = problem
    before = getattr(F, "linear_cross_entropy", None)
    if before is None:
        with pytest.raises(ValueError, match="expected torch 2.13 or later"):
            compat.patch_torch()
        return
    module = torch.nn.LinearCrossEntropyLoss(H, V, device=x.device)
    right = module(x, y)
    probabilities = torch.rand(N, V, device=x.device).softmax(1)
    with compat.patch_torch():
        from tilewright.torch import _ops
        assert F.linear_cross_entropy is not before
        calls = []
        real, _ops.linear_entry = _ops.linear_entry, lambda *a: calls.append(1) or real_of[0](*a)
        real_of = [real]
        tw.forget_prepared_calls()
        try:
            check(module(x, y), right, [x, *module.parameters()])
            assert calls
            F.linear_cross_entropy(x, w, probabilities)  # torch's own
            assert len(calls) == 1
        finally:
            _ops.linear_entry = real
    assert F.linear_cross_entropy is before


@pytest.fixture
def torchs_own():
    if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
        pytest.skip(f"torch {torch.__version__} has no F.linear_cross_entropy with options")
    return F.linear_cross_entropy


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("compiled", [False, True])
def test_patch_torch_reaches_its_operations(problem, torchs_own, reduction, compiled):
    """Who has torch's function from before the patch, and asks for its chunks, gets ours."""
    x, w, y = problem
    bias = torch.randn(V, device=x.device, requires_grad=True)
    upstream = torch.rand(N if reduction == "none" else (), device=x.device)

    def step(x, w, bias):
        return torchs_own(x, w, ignoring(y), linear_bias=bias, reduction=reduction,
                          options=torch.nn.LinearCrossEntropyOptions())

    right = F.cross_entropy(F.linear(x, w, bias), ignoring(y), reduction=reduction)
    expected = torch.autograd.grad(right, [x, w, bias], upstream)
    tw.forget_prepared_calls()
    torch.compiler.reset()
    with compat.patch_torch():
        ours = (torch.compile(step, backend="aot_eager") if compiled else step)(x, w, bias)
        gradients = torch.autograd.grad(ours, [x, w, bias], upstream)
    assert tw.prepared_calls()
    assert torch.allclose(ours, right, atol=1e-5)
    assert all(reference.relative(a, b) < 1e-4 for a, b in zip(gradients, expected))
    tw.forget_prepared_calls()
    torch.compiler.reset()
    torch.autograd.grad(step(x, w, bias), [x, w, bias], upstream)
    torchs_own(x.double(), w.double(), y, options=torch.nn.LinearCrossEntropyOptions())
    assert not tw.prepared_calls()  # torch's own again


def test_patch_torch_leaves_torch_what_ours_does_not_make(problem, torchs_own):
    x, w, y = problem
    options = torch.nn.LinearCrossEntropyOptions()
    right = torchs_own(x.double(), w.double(), y, options=options)
    tw.forget_prepared_calls()
    with compat.patch_torch():
        assert torch.equal(torchs_own(x.double(), w.double(), y, options=options), right)
    assert not tw.prepared_calls()


def test_patch_torch_refuses_operations_of_another_schema(torchs_own, monkeypatch):
    from tilewright.torch.compat import torch_operations
    schemas = {**torch_operations._SCHEMAS, "_linear_cross_entropy_batch_chunked": "(Tensor input) -> Tensor"}
    monkeypatch.setattr(torch_operations, "_SCHEMAS", schemas)
    with pytest.raises(ValueError, match="expected torch_nn::_linear_cross_entropy_batch_chunked with the schema"):
        compat.patch_torch()
    assert F.linear_cross_entropy is torchs_own
    with compat.patch_torch(operations=False):
        assert F.linear_cross_entropy is not torchs_own


def test_patch_torch_refuses_other_parameters(monkeypatch):
    monkeypatch.setattr(F, "linear_cross_entropy", lambda input, weight: None, raising=False)
    with pytest.raises(ValueError, match="this torch is not known"):
        compat.patch_torch()


def test_patch_liger(problem):
    pytest.importorskip("liger_kernel")
    try:
        import liger_kernel.transformers as theirs
    except RuntimeError as error:  # older tritons want a GPU when kernels are defined
        pytest.skip(f"liger_kernel cannot be imported here: {error}")
    from liger_kernel.transformers import functional
    from liger_kernel.transformers.model.loss_utils import LigerForCausalLMLoss
    x, w, y = problem
    before = functional.liger_fused_linear_cross_entropy, theirs.LigerFusedLinearCrossEntropyLoss
    with compat.patch_liger():
        check(theirs.LigerFusedLinearCrossEntropyLoss()(w, x, y), F.cross_entropy(x @ w.T, y), [x, w])
        out = LigerForCausalLMLoss(x.view(4, 6, H), w, y.view(4, 6), H, return_token_accuracy=True)
        loss = out.loss if hasattr(out, "loss") else out[0]
        expected = F.cross_entropy((x.view(4, 6, H)[:, :-1] @ w.T).flatten(0, 1), y.view(4, 6)[:, 1:].flatten())
        check(loss, expected, [x, w])
    assert before == (functional.liger_fused_linear_cross_entropy, theirs.LigerFusedLinearCrossEntropyLoss)
    parameters = inspect.signature(before[0]).parameters
    assert set(parameters) <= set(inspect.signature(liger.liger_fused_linear_cross_entropy).parameters)


def models():
    small = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, vocab_size=V, max_position_embeddings=64, head_dim=8)
    return {
        "LlamaConfig": {**small},
        "Qwen2Config": {**small, "tie_word_embeddings": True},
        "Gemma2Config": {**small, "final_logit_softcapping": 5.0},
        "GraniteConfig": {**small, "logits_scaling": 4.0},
        "Gemma3TextConfig": {**small},
        "CohereConfig": {**small, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
        "Qwen3MoeConfig": {**small, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
        "GPT2Config": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=V, n_positions=64),
        "BloomConfig": dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=V),
        "OPTConfig": dict(hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=V,
                          max_position_embeddings=64, word_embed_proj_dim=32),
    }


@pytest.mark.parametrize("family", list(models()))
@pytest.mark.parametrize("counted", [False, True])
def test_patch_transformers(device, family, counted, monkeypatch):
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, family):
        pytest.skip(f"transformers {transformers.__version__} has no {family}")
    config = getattr(transformers, family)(**models()[family])
    model = transformers.AutoModelForCausalLM.from_config(config).to(device).float().eval()  # eval: no dropout
    tokens = torch.randint(0, V, (2, 12), device=device)
    more = {"num_items_in_batch": torch.tensor(17)} if counted else {}

    def step():
        out = model(input_ids=tokens, labels=tokens, **more)
        return out, torch.autograd.grad(out.loss, list(model.parameters()))

    out, gradients = step()
    patch = compat.patch_transformers(model)
    made = []
    from tilewright.torch.compat import hugging_face
    real = hugging_face.PromisedLogits.tensor
    monkeypatch.setattr(hugging_face.PromisedLogits, "tensor", lambda self: made.append(1) or real(self))
    patched, ours = step()
    for name in ("shape", "dtype", "device"):
        assert getattr(patched.logits, name) == getattr(out.logits, name)
    assert not made  # no logits were in memory
    assert torch.allclose(patched.loss, out.loss, rtol=1e-5)
    assert all(reference.relative(a, b) < 1e-3 for a, b in zip(ours, gradients) if b.norm() > 1e-6)
    assert torch.allclose(torch.as_tensor(patched.logits[:, -1]), out.logits[:, -1], atol=1e-4)
    new = model.generate(tokens[:, :4], max_new_tokens=3, do_sample=False, pad_token_id=0)
    patch.undo()
    assert isinstance(model(input_ids=tokens).logits, torch.Tensor)
    assert torch.equal(new, model.generate(tokens[:, :4], max_new_tokens=3, do_sample=False, pad_token_id=0))


def test_patch_transformers_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="output layer is a torch.nn.Linear, found NoneType"):
        compat.patch_transformers(torch.nn.Linear(2, 2))

"""Where users of other libraries were hurt. Each test names its trap; the numbers are those libraries' issues."""

import copy
import gc
import threading

import pytest
import torch
import torch.nn.functional as F

import tilewright
import tilewright.torch as tw

N, H, V = 40, 32, 203


def problem(device, dtype=torch.float32, n=N):
    x = torch.randn(n, H, device=device).to(dtype).requires_grad_()
    w = (torch.randn(V, H, device=device) * 0.3).to(dtype).requires_grad_()
    return x, w, torch.randint(0, V, (n,), device=device)


def eager(x, w, y, **options):
    return F.cross_entropy(F.linear(x, w), y, **options)


def close(a, b, allowed=1e-4):
    return float((a.double() - b.double()).norm()) <= allowed * float(b.double().norm()) + 1e-12


def same_gradients(ours, theirs, inputs, allowed=1e-4):
    for mine, right in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(theirs, inputs)):
        assert close(mine, right, allowed)


@pytest.mark.parametrize("factor", [1.0, 3.0, 1 / 3, 0.0, -2.0])
def test_an_upstream_gradient_other_than_1(device, factor):  # TE 2139
    x, w, y = problem(device)
    same_gradients(tw.linear_cross_entropy(x, w, y) * factor, eager(x, w, y) * factor, [x, w])


def test_an_upstream_gradient_for_each_row(device):  # Liger 968, 1298
    x, w, y = problem(device)
    g = torch.randn(N, device=device)
    same_gradients((tw.linear_cross_entropy(x, w, y, reduction="none") * g).sum(),
                   (eager(x, w, y, reduction="none") * g).sum(), [x, w])


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_backward_twice_leaves_the_first_result(device, reduction):  # QuACK 209
    x, w, y = problem(device)
    loss = tw.linear_cross_entropy(x, w, y, reduction=reduction)
    up = torch.ones_like(loss)
    first = torch.autograd.grad(loss, [x, w], up, retain_graph=True)
    kept = [g.clone() for g in first]
    second = torch.autograd.grad(loss, [x, w], 3 * up, retain_graph=True)
    third = torch.autograd.grad(loss, [x, w], up)
    for a, b, c, d in zip(first, kept, second, third):
        assert torch.equal(a, b)
        assert close(c, 3 * b) and close(d, b)


@pytest.mark.parametrize("make", [lambda g: g.expand(N), lambda g: torch.stack([g.expand(N)] * 2, 1)[:, 0],
                                  lambda g: g.expand(N).double().float().flip(0)])
def test_incoming_gradients_of_any_stride(device, make):  # verl 6960
    x, w, y = problem(device)
    up = make(torch.tensor(0.5, device=device))
    ours = torch.autograd.grad(tw.linear_cross_entropy(x, w, y, reduction="none"), [x, w], up)
    theirs = torch.autograd.grad(eager(x, w, y, reduction="none"), [x, w], up)
    assert all(close(a, b) for a, b in zip(ours, theirs))


def test_inputs_of_any_stride(device):  # TE 2734
    x, w, y = problem(device)
    wide = torch.randn(N, 2 * H, device=device)
    batch = torch.randn(4, N // 4, H, device=device)
    for view in (torch.randn(H, N, device=device).T, wide[:, :H], wide[:, ::2], batch.transpose(0, 1).reshape(N, H),
                 torch.randn(H, device=device).expand(N, H), wide[:, 1:H + 1]):
        view = view.detach().requires_grad_()
        same_gradients(tw.linear_cross_entropy(view, w, y), eager(view, w, y), [view, w])
    three = batch.transpose(0, 1).detach().requires_grad_()
    labels = y.view(N // 4, 4)
    same_gradients(tw.linear_cross_entropy(three, w, labels), eager(three.flatten(0, 1), w, labels.flatten()),
                   [three, w])
    tall = torch.randn(H, V, device=device).T.detach().requires_grad_()
    same_gradients(tw.linear_cross_entropy(x, tall, y), eager(x, tall, y), [x, tall])
    strided = torch.stack([y, y], 1)[:, 0]
    assert torch.equal(tw.linear_cross_entropy(x, w, strided), tw.linear_cross_entropy(x, w, y))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("rows", [0, 8])
def test_no_rows_or_all_ignored(device, rows, reduction):
    x, w, y = problem(device, n=rows)
    loss = tw.linear_cross_entropy(x, w, torch.full_like(y, -100), reduction=reduction).sum()
    assert float(loss) == 0
    dx, dw = torch.autograd.grad(loss, [x, w])
    assert dx.shape == x.shape and not dx.any() and not dw.any()
    weighted = tw.linear_cross_entropy(x, w, torch.full_like(y, -100), row_weight=torch.ones(rows, device=device))
    assert float(weighted) == 0
    assert not torch.autograd.grad(weighted, w)[0].any()


def test_autocast_with_float32_parameters(device):  # Liger 501, 1283
    x, w, y = problem(device)
    bias = torch.randn(V, device=device, requires_grad=True)
    with torch.autocast(device, torch.bfloat16):
        ours = tw.linear_cross_entropy(x, w, y, linear_bias=bias)
    gradients = torch.autograd.grad(ours, [x, w, bias])
    assert ours.dtype == torch.float32 and all(g.dtype == torch.float32 for g in gradients)
    rounded = [t.detach().bfloat16().double().requires_grad_() for t in (x, w)]
    b = bias.detach().double().requires_grad_()
    expected = torch.autograd.grad(F.cross_entropy(F.linear(*rounded, b), y), [*rounded, b])
    assert all(close(a, e, 6e-3) for a, e in zip(gradients, expected))


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("frozen", ["input", "weight"])
def test_what_is_frozen_has_no_gradient(device, frozen, reduction):  # prime-rl 3011
    x, w, y = problem(device)
    still, trained = (x, w) if frozen == "input" else (w, x)
    still.requires_grad_(False)
    same_gradients(tw.linear_cross_entropy(x, w, y, reduction=reduction).sum(),
                   eager(x, w, y, reduction=reduction).sum(), [trained])
    tw.linear_cross_entropy(x, w, y, reduction=reduction).sum().backward()
    assert still.grad is None


def test_nothing_is_made_for_what_is_frozen(device, monkeypatch):
    from tilewright.torch import _ops
    made = []
    real = _ops.linear_entry
    monkeypatch.setattr(_ops, "linear_entry", lambda *a: made.append(a[-3:]) or real(*a))
    tw.forget_prepared_calls()
    x, w, y = problem(device)
    with torch.no_grad():
        tw.linear_cross_entropy(x, w, y)
    tw.linear_cross_entropy(x.detach(), w, y)
    tw.linear_cross_entropy(x, w.detach(), y)
    assert made == [(None, None, None), (None, torch.float32, None), (torch.float32, None, None)]


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_main_grad_adds_up_in_float32(device, reduction):  # Megatron 6943, 7101
    x, w, y = problem(device, torch.bfloat16)
    w.main_grad = torch.ones(V, H, device=device)
    up = torch.tensor(0.5, device=device)
    tw.linear_cross_entropy(x, w, y, main_grad=True, reduction=reduction).sum().backward(up)
    assert w.grad is None
    exact = [t.detach().double().requires_grad_() for t in (x, w)]
    eager(*exact, y, reduction=reduction).sum().backward(up.double())
    assert close(w.main_grad - 1, exact[1].grad, 6e-3) and close(x.grad, exact[0].grad, 6e-3)
    with pytest.raises(ValueError, match="main_grad"):
        tw.linear_cross_entropy(x, x.detach().clone().requires_grad_(), y, main_grad=True)


def test_main_grad_of_a_tied_weight(device):
    """The embedding's part arrives in .grad, the head's in main_grad; Megatron adds the former where it is told to."""
    _, w, y = problem(device)
    w.main_grad = torch.zeros(V, H, device=device)
    w.grad_added_to_main_grad = False
    tokens = torch.randint(0, V, (N,), device=device)
    tw.linear_cross_entropy(F.embedding(tokens, w), w, y, main_grad=True).backward()
    assert w.grad_added_to_main_grad
    tied = w.detach().clone().requires_grad_()
    eager(F.embedding(tokens, tied), tied, y).backward()
    assert close(w.main_grad + w.grad, tied.grad)


def test_float16_with_a_gradient_scaler(device):
    """1/N is subnormal in float16 from N = 65536 on: a mean's gradients must not be lost before they are scaled."""
    n = 1 << 16
    x = torch.randn(n, 8, device=device).half().requires_grad_()
    w = (torch.randn(50, 8, device=device) * 0.3).half().requires_grad_()
    y = torch.randint(0, 50, (n,), device=device)
    scale = torch.tensor(65536.0, device=device)
    (tw.linear_cross_entropy(x, w, y) * scale).backward()
    exact = [t.detach().double().requires_grad_() for t in (x, w)]
    (eager(*exact, y) * scale.double()).backward()
    assert close(x.grad, exact[0].grad, 1e-3) and close(w.grad, exact[1].grad, 1e-3)


def test_grad_scaler_steps(device):
    model = torch.nn.Linear(H, V, bias=False, device=device)
    before = copy.deepcopy(model.weight.detach())
    scaler = torch.amp.GradScaler(device, init_scale=2.0 ** 12)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, _, y = problem(device)
    with torch.autocast(device, torch.float16):
        loss = tw.linear_cross_entropy(x, model.weight, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(model.weight, before) and torch.isfinite(model.weight).all()


def test_inputs_and_their_versions_are_unchanged(device):  # Liger 272, 1251
    x, w, y = problem(device)
    tensors = (x, w, y)
    before = [(t.detach().clone(), t._version) for t in tensors]
    tw.linear_cross_entropy(x, w, y).backward()
    tw.cross_entropy((x @ w.T).detach().requires_grad_(), y).backward()
    for tensor, (value, version) in zip(tensors, before):
        assert torch.equal(tensor, value) and tensor._version == version


def test_a_weight_that_changed_since_is_noticed(device):
    x, w, y = problem(device)
    loss = tw.linear_cross_entropy(x, w, y, reduction="none").sum()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_two_runs_are_bit_equal(device, reduction):
    torch.use_deterministic_algorithms(True)
    try:
        x, w, y = problem(device, torch.bfloat16)
        runs = []
        for _ in range(2):
            loss = tw.linear_cross_entropy(x, w, y, reduction=reduction)
            runs.append([loss, *torch.autograd.grad(loss.sum(), [x, w])])
        assert all(torch.equal(a, b) for a, b in zip(*runs))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_double_backward_is_refused(device, reduction):
    x, w, y = problem(device)
    loss = tw.linear_cross_entropy(x, w, y, reduction=reduction).sum()
    dx, = torch.autograd.grad(loss, x, create_graph=True)
    assert close(dx, torch.autograd.grad(eager(x, w, y, reduction=reduction).sum(), x)[0])
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        dx.square().sum().backward()
    z = torch.randn(4, V, device=device, requires_grad=True)
    dz, = torch.autograd.grad(tw.cross_entropy(z, y[:4]), z, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        dz.sum().backward()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(device, reentrant):
    x, w, y = problem(device)
    loss = torch.utils.checkpoint.checkpoint(lambda x, w: tw.linear_cross_entropy(torch.tanh(x), w, y), x, w,
                                             use_reentrant=reentrant)
    loss.backward()
    expected = torch.autograd.grad(eager(torch.tanh(x), w, y), [x, w])
    assert close(x.grad, expected[0]) and close(w.grad, expected[1])


def test_saved_tensors_may_be_moved_off_the_device(device):
    x, w, y = problem(device)
    with torch.autograd.graph.save_on_cpu():
        loss = tw.linear_cross_entropy(x, w, y, reduction="none").sum()
    same_gradients(loss, eager(x, w, y, reduction="sum"), [x, w])


def test_threads(device):
    x, w, y = problem(device)
    expected = torch.autograd.grad(tw.linear_cross_entropy(x, w, y), [x, w])
    wrong = []

    def work():
        for _ in range(20):
            found = torch.autograd.grad(tw.linear_cross_entropy(x, w, y), [x, w])
            if not all(torch.equal(a, b) for a, b in zip(found, expected)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_label_that_is_no_class(device):
    x, w, y = problem(device)
    y[7] = V + 5
    with pytest.raises(tilewright.UserError, match=f"label {V + 5} in row 7 is no class: expected 0 to {V - 1}"):
        tw.linear_cross_entropy(x, w, y)
        tw.check()  # on a GPU nobody has looked before
    tw.check()
    y[7] = 1
    tw.linear_cross_entropy(x, w, y)
    tw.check()


def test_a_class_weight_that_is_negative(device):
    x, w, y = problem(device)
    weight = torch.ones(V, device=device)
    weight[3] = -1
    with pytest.raises(tilewright.UserError, match="class 3"):
        tw.linear_cross_entropy(x, w, y, weight=weight)
        tw.check()


def test_labels_of_other_integer_types(device):
    x, w, y = problem(device)
    right = tw.linear_cross_entropy(x, w, y)
    for dtype in (torch.int32, torch.int16, torch.uint8):
        assert torch.equal(tw.linear_cross_entropy(x, w, y.to(dtype)), right)


def test_mistakes_are_said_in_words(device):
    x, w, y = problem(device)
    bad = [
        (dict(target=y[:-1]), "target: expected shape"),
        (dict(target=y.float()), "target: expected class numbers"),
        (dict(linear_weight=w[:, :-1]), "linear_weight: expected shape"),
        (dict(linear_weight=w.bfloat16()), "linear_weight: expected input's type"),
        (dict(input=x.double(), linear_weight=w.double()), "input: expected float32, bfloat16 or float16"),
        (dict(linear_bias=w[:3, 0]), "linear_bias: expected shape"),
        (dict(reduction="average"), "reduction: expected 'mean', 'sum' or 'none'"),
        (dict(label_smoothing=2.0), "label_smoothing: expected 0.0 to 1.0, found 2.0"),
        (dict(z_loss=-1.0), "z_loss"),
        (dict(logit_scale=0.0), "logit_scale"),
        (dict(logit_scale=torch.ones(())), "logit_scale: expected a number"),
        (dict(shift=-1), "shift"),
        (dict(shift=N + 1), "shift"),
        (dict(weight=torch.ones(3, device=device)), "weight: expected shape"),
        (dict(row_weight=torch.ones(3, device=device)), "row_weight: expected shape"),
        (dict(group=object()), "group: expected a torch.distributed.ProcessGroup"),
        (dict(main_grad=True), "main_grad: expected linear_weight.main_grad"),
        (dict(margin=(0.1, 2.0), softcap=3.0), "LMCL goes with no softcap"),
    ]
    for given, message in bad:
        arguments = dict(input=x, linear_weight=w, target=y)
        arguments.update(given)
        with pytest.raises(ValueError, match=message):
            tw.linear_cross_entropy(arguments.pop("input"), arguments.pop("linear_weight"), arguments.pop("target"),
                                    **arguments)


def test_dtensor_is_refused(device):  # TRL 6065
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    if device != "cpu":
        pytest.skip("one process with gloo is enough")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x, w, y = problem(device)
        sharded = distribute_tensor(w.detach(), init_device_mesh("cpu", (1,)), [Shard(0)])
        with pytest.raises(ValueError, match="linear_weight: expected a tensor of this process, found a DTensor"):
            tw.linear_cross_entropy(x, sharded, y)
        assert float(tw.linear_cross_entropy(x, sharded.full_tensor(), y)) > 0
    finally:
        dist.destroy_process_group()


def test_a_device_that_is_not_the_current_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("fewer than two GPUs")
    x, w, y = problem("cuda:1")
    with torch.cuda.device(0):
        same_gradients(tw.linear_cross_entropy(x, w, y), eager(x, w, y), [x, w])


def test_capture_in_a_cuda_graph():  # Liger 1292, torchtitan 3559
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x, w, y = problem("cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            torch.autograd.grad(tw.linear_cross_entropy(x, w, y), [x, w])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        loss = tw.linear_cross_entropy(x, w, y)
        gradients = torch.autograd.grad(loss, [x, w])
    with torch.no_grad():
        x.mul_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    assert close(loss, eager(x, w, y))
    expected = torch.autograd.grad(eager(x, w, y), [x, w])
    assert all(close(a, b) for a, b in zip(gradients, expected))
    y[2] = V
    graph.replay()
    with pytest.raises(tilewright.UserError, match="row 2"):
        tw.check()
    y[2] = 0
    graph.replay()
    tw.check()


def test_what_a_cuda_graph_captured_outlives_the_kept_calls():
    """Backward calls that write where they are told to: of main_grad, and of logits in their own memory."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x, w, y = problem("cuda")
    w.main_grad = torch.zeros(V, H, device="cuda")
    z = torch.randn(N, V, device="cuda", requires_grad=True)

    def step():
        w.main_grad.zero_()
        dx, = torch.autograd.grad(tw.linear_cross_entropy(x, w, y, main_grad=True) * 2, [x])
        dz, = torch.autograd.grad(tw.cross_entropy(z * 1.0, y, inplace_backward=True), z)
        return [dx, w.main_grad, dz]

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
        expected = [made.clone() for made in step()]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = step()
    tw.forget_prepared_calls()
    gc.collect()
    for made in found:
        made.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


def test_no_host_synchronisation():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x, w, y = problem("cuda")
    weights = torch.rand(N, device="cuda")
    tw.linear_cross_entropy(x, w, y).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for given in ({}, {"reduction": "none"}, {"row_weight": weights}, {"label_smoothing": 0.1}):
            (tw.linear_cross_entropy(x, w, y, **given).sum() * 0.5).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_streams():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x, w, y = problem("cuda", n=512)
    expected = torch.autograd.grad(tw.linear_cross_entropy(x, w, y), [x, w])
    torch.cuda.synchronize()
    results = []
    for stream in [torch.cuda.Stream() for _ in range(4)]:
        with torch.cuda.stream(stream):
            results.append(torch.autograd.grad(tw.linear_cross_entropy(x, w, y), [x, w]))
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for found in results for a, b in zip(found, expected))

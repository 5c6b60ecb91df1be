"""The kernels of Triton's tutorials beside which `tilewright bench --kernel` is read: softmax, layer norm with its
backward pass, seeded dropout, matrix product, causal attention forward, written anew after the tutorials' algorithms.

    python tests/gpu/triton_examples.py --kernel row_softmax --shape 16384,8192 --dtype bf16 [--json FILE]

Needs an NVIDIA GPU with PyTorch and Triton. Names, shapes and units are those of `tilewright bench --kernel`: the bytes
that have to be read and written over the median time, or a product's operations; compile_ms is from a cold cache.
--check runs each kernel once on small shapes, with TRITON_INTERPRET=1 on a machine without a GPU."""

import argparse
import json
import os
import statistics
import tempfile
import time

os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())  # compile times are those of a cold cache

import torch
import triton
import triton.language as tl

P, EPSILON, SEED = 0.5, 1e-5, 1234567890123
DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@triton.jit
def softmax_kernel(x, y, rows, columns, stride, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        e = tl.exp(values - tl.max(values, axis=0))
        tl.store(y + row * stride + at, e / tl.sum(e, axis=0), mask=at < columns)


@triton.jit
def layer_norm_kernel(x, gain, bias, y, mean, scale, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    average = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - average, 0.0)
    inverse = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    tl.store(mean + row, average)
    tl.store(scale + row, inverse)
    g = tl.load(gain + at, mask=inside).to(tl.float32)
    b = tl.load(bias + at, mask=inside).to(tl.float32)
    tl.store(y + row * columns + at, centred * inverse * g + b, mask=inside)


@triton.jit
def layer_norm_gradient_kernel(dy, x, gain, mean, scale, dx, gains, biases, locks, columns, GROUPS: tl.constexpr,
                               BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    group = (row % GROUPS).to(tl.int32)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    upstream = tl.load(dy + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    g = upstream * tl.load(gain + at, mask=inside, other=0.0).to(tl.float32)
    inverse = tl.load(scale + row)
    normalised = tl.where(inside, (values - tl.load(mean + row)) * inverse, 0.0)
    along = tl.sum(g * normalised, axis=0) / columns
    across = tl.sum(g, axis=0) / columns
    tl.store(dx + row * columns + at, (g - normalised * along - across) * inverse, mask=inside)
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    isFirst = tl.load(locks + GROUPS + group) == 0
    gainSum, biasSum = upstream * normalised, upstream
    if isFirst:
        tl.atomic_xchg(locks + GROUPS + group, 1)
    else:
        gainSum += tl.load(gains + group * columns + at, mask=inside)
        biasSum += tl.load(biases + group * columns + at, mask=inside)
    tl.store(gains + group * columns + at, gainSum, mask=inside)
    tl.store(biases + group * columns + at, biasSum, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(locks + group, 0)


@triton.jit
def layer_norm_sums_kernel(gains, biases, dGain, dBias, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    gainSum = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    biasSum = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (at[None, :] < columns)
        gainSum += tl.load(gains + row[:, None] * columns + at[None, :], mask=inside, other=0.0)
        biasSum += tl.load(biases + row[:, None] * columns + at[None, :], mask=inside, other=0.0)
    tl.store(dGain + at, tl.sum(gainSum, axis=0), mask=at < columns)
    tl.store(dBias + at, tl.sum(biasSum, axis=0), mask=at < columns)


@triton.jit
def dropout_kernel(x, y, size, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < size)
    keep = tl.rand(seed, at) > p
    tl.store(y + at, tl.where(keep, values / (1 - p), 0.0), mask=at < size)


def product_configurations():
    shapes = [(128, 256, 64, 3, 8), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4), (64, 128, 32, 4, 4),
              (128, 256, 128, 3, 8), (256, 128, 128, 3, 8), (128, 128, 64, 4, 4), (256, 64, 64, 4, 4), (128, 128, 128, 4, 4)]
    return [triton.Config({"M": m, "N": n, "K": k, "GROUP": 8}, num_stages=stages, num_warps=warps)
            for m, n, k, stages, warps in shapes]


@triton.jit
def matmul_kernel(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):
    number = tl.program_id(0)
    rowBlocks, columnBlocks = tl.cdiv(m, M), tl.cdiv(n, N)
    first = number // (GROUP * columnBlocks) * GROUP
    height = min(rowBlocks - first, GROUP)
    rows = (first + number % (GROUP * columnBlocks) % height) * M + tl.arange(0, M)
    columns = number % (GROUP * columnBlocks) // height * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    left = a + (rows % m)[:, None] * k + depth[None, :]
    right = b + depth[:, None] * n + (columns % n)[None, :]
    for at in range(0, k, K):
        x = tl.load(left + at, mask=depth[None, :] < k - at, other=0.0)
        y = tl.load(right + at * n, mask=depth[:, None] < k - at, other=0.0)
        total = tl.dot(x, y, total)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=inside)


def attention_configurations():
    return [triton.Config({"M": m, "N": n}, num_stages=stages, num_warps=warps)
            for m in (64, 128) for n in (32, 64, 128) for stages in (2, 3, 4) for warps in (4, 8)]


@triton.jit
def attention_keys(sums, mass, top, query, k, v, begin, end, rows, size, scale, MASKED: tl.constexpr, N: tl.constexpr,
                   WIDTH: tl.constexpr):
    """The online softmax over keys [begin, end) of one head."""
    at = tl.arange(0, WIDTH)
    for first in range(begin, end, N):
        keys = first + tl.arange(0, N)
        place = keys[:, None] * WIDTH + at[None, :]
        logits = tl.dot(query, tl.load(k + place, mask=keys[:, None] < size, other=0.0).T) * scale
        if MASKED:
            logits = tl.where((keys[None, :] <= rows[:, None]) & (keys[None, :] < size), logits, -1e30)
        larger = tl.maximum(top, tl.max(logits, 1))
        e = tl.exp2(logits - larger[:, None])
        factor = tl.exp2(top - larger)
        values = tl.load(v + place, mask=keys[:, None] < size, other=0.0)
        sums = tl.dot(e.to(values.dtype), values, sums * factor[:, None])
        mass = mass * factor + tl.sum(e, 1)
        top = larger
    return sums, mass, top


@triton.jit
def attention_kernel(q, k, v, o, size, scale, M: tl.constexpr, N: tl.constexpr, WIDTH: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * size * WIDTH
    rows = tl.program_id(0) * M + tl.arange(0, M)
    place = head + rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    query = tl.load(q + place, mask=rows[:, None] < size, other=0.0)
    top = tl.full((M,), -1e30, dtype=tl.float32)
    mass = tl.zeros((M,), dtype=tl.float32)
    sums = tl.zeros((M, WIDTH), dtype=tl.float32)
    seen = tl.program_id(0) * M // N * N  # keys that all rows see
    last = min((tl.program_id(0) + 1) * M, size)
    scale *= 1.44269504
    sums, mass, top = attention_keys(sums, mass, top, query, k + head, v + head, 0, seen, rows, size, scale, False, N, WIDTH)
    sums, mass, top = attention_keys(sums, mass, top, query, k + head, v + head, seen, last, rows, size, scale, True, N, WIDTH)
    tl.store(o + place, sums / mass[:, None], mask=rows[:, None] < size)


tuned_attention_kernel = triton.autotune(configs=attention_configurations(), key=["size", "WIDTH"])(attention_kernel)
tuned_matmul_kernel = triton.autotune(configs=product_configurations(), key=["m", "n", "k"])(matmul_kernel)


def units():
    return torch.cuda.get_device_properties(0).multi_processor_count if DEVICE == "cuda" else 2


def warps_for(block):
    return min(max(block // 256, 1), 8)


def random(shape, dtype, seed):
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=DEVICE, dtype=torch.float32).to(dtype)


def error_of(found, expected):
    found, expected = found.double(), expected.double()
    return float((found - expected).norm() / expected.norm())


# Each returns what runs the kernel, what gives its error, and the bytes or operations of a run.


def row_softmax(shape, dtype):
    rows, columns = shape
    x = random(shape, dtype, 1)
    y = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    stages = 4 if block * x.element_size() <= 32768 else 2

    def run():
        grid = (min(rows, 4 * units()),)
        softmax_kernel[grid](x, y, rows, columns, columns, BLOCK=block, STAGES=stages, num_warps=8)

    return run, lambda: error_of(y[:8], torch.softmax(x[:8].double(), 1)), {"bytes": 2 * x.nbytes}


def layer_norm(shape, dtype):
    rows, columns = shape
    x, gain, bias = random(shape, dtype, 1), random((columns,), dtype, 2), random((columns,), dtype, 3)
    y, mean, scale = torch.empty_like(x), torch.empty(rows, device=DEVICE), torch.empty(rows, device=DEVICE)
    block = triton.next_power_of_2(columns)

    def run():
        layer_norm_kernel[(rows,)](x, gain, bias, y, mean, scale, columns, EPSILON, BLOCK=block, num_warps=warps_for(block))

    def error():
        wanted = torch.nn.functional.layer_norm(x[:8].double(), (columns,), gain.double(), bias.double(), EPSILON)
        return error_of(y[:8], wanted)

    return run, error, {"bytes": 2 * x.nbytes}


def layer_norm_gradient(shape, dtype):
    rows, columns = shape
    dy, x, gain = random(shape, dtype, 1), random(shape, dtype, 2), random((columns,), dtype, 3)
    mean = x.float().mean(1)
    scale = 1 / torch.sqrt(x.float().var(1, unbiased=False) + EPSILON)
    dx, dGain, dBias = torch.empty_like(x), torch.empty_like(gain), torch.empty_like(gain)
    groups = 64 if columns > 8192 else 96 if columns > 4096 else 128 if columns > 1024 else 256
    gains, biases = torch.empty(2, groups, columns, device=DEVICE)
    locks = torch.zeros(2 * groups, dtype=torch.int32, device=DEVICE)
    block = triton.next_power_of_2(columns)

    def run():
        locks.zero_()
        layer_norm_gradient_kernel[(rows,)](dy, x, gain, mean, scale, dx, gains, biases, locks, columns, GROUPS=groups,
                                            BLOCK=block, num_warps=warps_for(block))
        layer_norm_sums_kernel[(triton.cdiv(columns, 128),)](gains, biases, dGain, dBias, min(groups, rows), columns,
                                                             ROWS=32, COLUMNS=128)

    def error():
        wide = x.double().requires_grad_()
        wideGain, wideBias = gain.double().requires_grad_(), torch.zeros_like(gain).double().requires_grad_()
        torch.nn.functional.layer_norm(wide, (columns,), wideGain, wideBias, EPSILON).backward(dy.double())
        return max(error_of(dx, wide.grad), error_of(dGain, wideGain.grad), error_of(dBias, wideBias.grad))

    return run, error, {"bytes": 3 * x.nbytes}


def dropout(shape, dtype):
    (size,) = shape
    x = random(shape, dtype, 1)
    y = torch.empty_like(x)

    def run():
        dropout_kernel[(triton.cdiv(size, 1024),)](x, y, size, P, SEED, BLOCK=1024)

    def error():  # what is kept, and how many
        kept = y != 0
        share = abs(float(kept.double().mean()) - (1 - P)) * (1 if size > 10000 else 0)
        return max(error_of(y[kept], x[kept].double() / (1 - P)), 0 if share < 0.02 else share)

    return run, error, {"bytes": 2 * x.nbytes}


def matmul(shape, dtype):
    m, n, k = shape
    a, b = random((m, k), dtype, 1), random((k, n), dtype, 2)
    c = torch.empty(m, n, device=DEVICE, dtype=dtype)

    def run():
        if DEVICE == "cpu":
            matmul_kernel[(triton.cdiv(m, 32) * triton.cdiv(n, 32),)](a, b, c, m, n, k, M=32, N=32, K=32, GROUP=8)
        else:
            tuned_matmul_kernel[lambda blocks: (triton.cdiv(m, blocks["M"]) * triton.cdiv(n, blocks["N"]),)](a, b, c, m, n, k)

    return run, lambda: error_of(c[:8], a[:8].double() @ b.double()), {"operations": 2 * m * n * k}


def attention(shape, dtype):
    heads, size, width = shape
    q, k, v = (random((heads, size, width), dtype, seed) for seed in (1, 2, 3))
    o = torch.empty_like(q)
    scale = width**-0.5

    def run():
        if DEVICE == "cpu":
            attention_kernel[(triton.cdiv(size, 32), heads)](q, k, v, o, size, scale, M=32, N=32, WIDTH=width)
        else:
            grid = lambda blocks: (triton.cdiv(size, blocks["M"]), heads)
            tuned_attention_kernel[grid](q, k, v, o, size, scale, WIDTH=width)

    def error():  # of the last head's first and last positions
        rows = torch.arange(size, device=DEVICE)
        rows = rows[(rows < 8) | (rows >= size - 8)]
        logits = q[-1][rows].double() @ k[-1].double().T * scale
        logits.masked_fill_(torch.arange(size, device=DEVICE)[None, :] > rows[:, None], -float("inf"))
        return error_of(o[-1][rows], torch.softmax(logits, 1) @ v[-1].double())

    return run, error, {"operations": 2 * heads * size * size * width}


KERNELS = {"row_softmax": row_softmax, "layer_norm": layer_norm, "layer_norm_gradient": layer_norm_gradient,
           "dropout": dropout, "matmul": matmul, "attention": attention}


def median_milliseconds(run, seconds=1.5):
    """Of runs back to back, in ten groups; only the second half counts, once the clock has settled."""
    def group(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / count

    group(3)
    count = max(1, int(seconds * 1e3 / 10 / group(3)))
    return statistics.median([group(count) for _ in range(10)][5:])


def measure(name, shape, dtypeName):
    run, error, work = KERNELS[name](shape, DTYPES[dtypeName])
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    compileMilliseconds = (time.perf_counter() - begin) * 1e3
    found = error()
    allowed = 1e-5 if dtypeName == "f32" and name not in ("matmul", "attention") else 4e-3
    assert found <= allowed, f"{name}: the result is {found} off"
    milliseconds = median_milliseconds(run)
    result = {"kernel": name, "by": "triton " + triton.__version__, "device": torch.cuda.get_device_name(), "shape": shape,
              "dtype": dtypeName, "error": found, "compile_ms": compileMilliseconds, "ms": milliseconds}
    if "bytes" in work:
        result["gb_per_s"] = work["bytes"] / milliseconds * 1e-6
    else:
        result["tflop_per_s"] = work["operations"] / milliseconds * 1e-9
    return result


def check():
    for name, kernel in KERNELS.items():
        shape = {"dropout": (3000,), "matmul": (70, 90, 50), "attention": (2, 70, 32)}.get(name, (7, 100))
        run, error, _ = kernel(shape, torch.float32)
        run()
        found = error()
        print(f"{name}: {found:.1e} off")
        assert found <= (4e-3 if name in ("matmul", "attention") else 1e-5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=KERNELS)
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    results = [measure(arguments.kernel, [int(size) for size in shape.split(",")], arguments.dtype) for shape in arguments.shape]
    print(json.dumps(results, indent=2))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()

"""Launching a bundle's kernel by its name on torch tensors."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

import tilewright
import tilewright.torch as tw

ROOT = Path(tilewright.__file__).resolve().parents[3]


def export(folder, target):
    """A bundle with the kernels of a small loss for the target; the gradient's scaling is among them."""
    found = [path for path in (Path("tools/tilewright"), ROOT / "bazel-bin/tools/tilewright") if path.exists()]
    if not found:
        pytest.skip("there is no tilewright program: bazel build //tools:tilewright")
    path = folder / "small.bundle"
    done = subprocess.run([found[0], "export", "--bundle", path, "--target", target, "--shape", "16,8,32"], text=True,
                          env={**os.environ, "TILEWRIGHT_CACHE_DIR": "off"}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return export(tmp_path_factory.mktemp("bundle"), "cpu")


def scale(bundle, specialisation="f32"):
    return tw.Kernel("loss_scale_gradient", specialisation=specialisation, bundles=[bundle])


def test_a_launch(bundle):
    kernel = scale(bundle)
    assert kernel.parameters == ("gradient", "scale", "scaled")
    gradient, out = torch.randn(40, 600)[:, :500], torch.zeros(40, 500)  # rows may lie apart
    kernel(gradient, torch.tensor([3.0]), out)
    assert torch.equal(out, 3 * gradient)
    in_place = scale(bundle, "f32,in place")
    in_place(torch.tensor([0.5]), out)
    assert torch.equal(out, 1.5 * gradient)


def test_mistakes_are_said_in_words(bundle):
    kernel = scale(bundle)
    x, number, out = torch.randn(4, 8), torch.ones(1), torch.zeros(4, 8)
    for arguments, message in (
            ((x, number), "loss_scale_gradient: expected 3 arguments, gradient, scale, scaled, found 2"),
            ((x.double(), number, out), "gradient: expected at most two dimensions of float32"),
            ((x.view(2, 2, 8), number, out), "gradient: expected at most two dimensions"),
            ((x.to("meta"), number, out), "gradient: expected a tensor on cpu, found meta"),
            (("x", number, out), "gradient: expected a tensor or a number, found str"),
            ((2.0, number, out), "gradient: expected"),
            ((x.T.contiguous().T, number, out), "gradient: expected rows whose elements are adjacent")):
        with pytest.raises(tilewright.UserError, match=message):
            kernel(*arguments)


def test_what_no_bundle_has(bundle):
    with pytest.raises(tilewright.UserError, match="my_softmax"):
        tw.Kernel("my_softmax", bundles=[bundle])
    with pytest.raises(tilewright.UserError, match="specialisation: expected one of"):
        tw.Kernel("loss_scale_gradient", bundles=[bundle])
    with pytest.raises(tilewright.UserError, match="cannot open"):
        tw.Kernel("loss_scale_gradient", bundles=["/no such file"])
    with pytest.raises(tilewright.UserError, match="opened without bundles"):
        tw.Kernel("loss_scale_gradient")


def test_a_launch_on_a_gpu(tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    target = "sm_90a" if torch.cuda.get_device_capability() == (9, 0) else "sm_80"
    kernel = tw.Kernel("loss_scale_gradient", specialisation="f32", bundles=[export(tmp_path, target)], device="cuda")
    gradient, out = torch.randn(40, 600, device="cuda")[:, :500], torch.zeros(40, 500, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # behind what that stream has, and before what it gets
        factor = torch.full((1,), 3.0, device="cuda")
        kernel(gradient, factor, out)
        found = out + 1
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(found, 3 * gradient + 1)
    with pytest.raises(tilewright.UserError, match="expected a tensor on cuda:0, found cpu"):
        kernel(gradient.cpu(), factor, out)

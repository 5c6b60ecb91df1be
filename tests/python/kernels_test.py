"""Launching a bundle's kernel by its name on torch tensors."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

import tilewright
import tilewright.torch as tw

ROOT = Path(tilewright.__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """One with the kernels of a small loss on the CPU; the gradient's scaling is among them."""
    found = [path for path in (Path("tools/tilewright"), ROOT / "bazel-bin/tools/tilewright") if path.exists()]
    if not found:
        pytest.skip("there is no tilewright program: bazel build //tools:tilewright")
    path = tmp_path_factory.mktemp("bundle") / "small.bundle"
    done = subprocess.run([found[0], "export", "--bundle", path, "--target", "cpu", "--shape", "16,8,32"], text=True,
                          env={**os.environ, "TILEWRIGHT_CACHE_DIR": "off"}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return path


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

"""The wheel, in an environment of its own: the library inside is found, and nothing else of this tree is needed."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
from pathlib import Path
import tilewright
from tilewright import _library
assert Path(tilewright.__file__).is_relative_to(sys.prefix), tilewright.__file__
assert tilewright.library_version() == tilewright.__version__
assert Path(_library._library._name).is_relative_to(sys.prefix), _library._library._name
import torch, tilewright.torch as tw
x, w = torch.randn(8, 4, requires_grad=True), torch.randn(11, 4, requires_grad=True)
tw.linear_cross_entropy(x, w, torch.arange(8)).backward()
expected = torch.autograd.grad(torch.nn.functional.cross_entropy(x @ w.T, torch.arange(8)), w)[0]
assert torch.allclose(w.grad, expected, atol=1e-5)
"""


def run(*words, **environment):
    inherited = {name: value for name, value in os.environ.items()
                 if name not in ("TILEWRIGHT_LIBRARY", "PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(words, env={**inherited, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    assert done.returncode == 0, f"{words}: {done.stdout}"
    return done.stdout


def test_the_wheel_in_an_environment_of_its_own(tmp_path):
    pytest.importorskip("auditwheel")
    library = os.environ.get("TILEWRIGHT_LIBRARY", str(ROOT / "bazel-bin/bindings/c/libtilewright.so"))
    plain = run(sys.executable, str(ROOT / "tools/build/make_wheel.py"), "--package",
                str(ROOT / "bindings/python/tilewright"), "--readme", str(ROOT / "bindings/python/README.md"),
                "--library", library, "--out", str(tmp_path / "plain")).split()[-1]
    run(sys.executable, "-m", "auditwheel", "repair", "--plat", "manylinux_2_34_x86_64", "--wheel-dir",
        str(tmp_path / "out"), plain, PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"])
    wheel, = (tmp_path / "out").iterdir()
    assert wheel.name.endswith("-py3-none-manylinux_2_34_x86_64.whl")
    run(sys.executable, "-m", "venv", str(tmp_path / "fresh"))
    python = str(tmp_path / "fresh/bin/python")
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    # Torch is too large to install again: it comes from here, behind what the wheel brought.
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(packages) / "torch.pth").write_text(sysconfig.get_path("purelib"))
    run(python, "-c", PROGRAM)

"""The package's programs, as people run them."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright


def run(*words):
    environment = {**os.environ, "PYTHONPATH": str(Path(tilewright.__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", *words], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_demo(tmp_path):
    picture = tmp_path / "demo.png"
    out = run("tilewright.torch.demo", "--device", "cpu", "--steps", "40", "--out", str(picture))
    first, last = re.search(r"tilewright +loss ([0-9.]+) → ([0-9.]+)", out).groups()
    assert float(last) < 0.75 * float(first)
    assert float(out.split()[-1]) < 1e-2
    pytest.importorskip("matplotlib")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_benchmark_of_one_shape():
    out = run("tilewright.torch.benchmark", "--device", "cpu", "--main-shape", "--shape", "32,16,256", "--trl-shape",
              "32,16,256", "--no-peers", "--repeats", "1")
    assert "three products" in out and "host: a training call" in out
    differences = re.search(r"differ by (\S+) \(dX\), (\S+) \(dW\)", out).groups()
    assert all(float(found) < 1e-5 for found in differences)


def test_benchmark_of_errors():
    out = run("tilewright.torch.benchmark", "--device", "cpu", "--check", "--shape", "32,16,256")
    assert all(float(error) < 1e-5 for error in re.findall(r"[0-9.]+e-[0-9]+", out))


def test_benchmark_of_the_hosts_time():
    out = run("tilewright.torch.benchmark", "--device", "cpu", "--host", "--repeats", "2")
    ours, eager, nothing, bare = (float(re.search(name + r" +([0-9.]+) ", out).group(1)) for name in (
        "tilewright", "eager torch", "a Function that does nothing", "the C calls alone"))
    assert min(eager, nothing, bare) > 0 and ours > bare


def test_benchmark_sweep(tmp_path):
    pytest.importorskip("matplotlib")
    run("tilewright.torch.benchmark", "--device", "cpu", "--shape", "32,16,256", "--repeats", "1", "--out",
        str(tmp_path))
    with open(tmp_path / "results.csv") as file:
        ours = [row for row in csv.DictReader(file) if row["name"] == "tilewright"]
    assert len(ours) == 12 and all(float(row["error_dw"]) < 1e-5 for row in ours)
    assert {path.name for path in tmp_path.iterdir()} == {"results.csv", "over-n.png", "over-h.png", "over-v.png"}

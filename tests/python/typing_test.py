"""What type checkers say of the functions' results, and that the keywords they know are those that there are."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright
import tilewright.torch as tw
from tilewright.torch import functional, nn

# What a line gives stands behind it.
PROGRAM = """
import torch, tilewright.torch as tw
def calls(x: torch.Tensor, flag: bool, shape: tuple[int, int]) -> None:
    reveal_type(tw.linear_cross_entropy(x, x, x, linear_bias=x, reduction="none", shift=1))  # Tensor
    reveal_type(tw.linear_cross_entropy(x, x, x, return_lse=False, return_monitored=False))  # Tensor
    reveal_type(tw.linear_cross_entropy(x, x, x, return_lse=True, margin=0.1))  # LossOutput
    reveal_type(tw.linear_cross_entropy(x, x, x, return_entropy=True, return_correct=flag))  # LossOutput
    reveal_type(tw.linear_cross_entropy(x, x, x, return_argmax=True, return_monitored=True))  # LossOutput
    reveal_type(tw.cross_entropy(x, x, x, inplace_backward=True))  # Tensor
    reveal_type(tw.cross_entropy(x, x, return_correct=True, z_loss=1e-4))  # LossOutput
    reveal_type(tw.nn.LinearCrossEntropyLoss(*shape, bias=True, label_smoothing=0.1)(x, x))  # Tensor
    reveal_type(tw.nn.LinearCrossEntropyLoss(*shape, return_argmax=True)(x, x))  # LossOutput
    reveal_type(tw.selected_log_probs(x, x, x)[1])  # Tensor
    tw.linear_cross_entropy(x, x, x, return_entropy=True).entropy.mean().backward()
    tw.linear_cross_entropy(x, x, x).entropy  # error
    tw.linear_cross_entropy(x, x, x, return_everything=True)  # error
    tw.nn.LinearCrossEntropyLoss(*shape, shift="one")  # error
"""


def test_results_by_mypy(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), "program.py"],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(Path(tilewright.__file__).resolve().parents[1])},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = {}
    for number, kind, text in re.findall(r"^program\.py:(\d+): (note|error): (.*)$", done.stdout, re.MULTILINE):
        if kind == "error":
            found[int(number)] = "error"
        elif text.startswith("Revealed type"):
            found[int(number)] = re.search(r'LossOutput|(?<=torch\._tensor\.)Tensor(?="$)', text)[0]
    expected = {number: line.split("# ")[1] for number, line in enumerate(PROGRAM.split("\n"), 1) if "# " in line}
    assert found == expected, done.stdout


def keywords(function):
    return {name: parameter.annotation for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind == parameter.KEYWORD_ONLY and not name.startswith("return_")}


def test_keywords_are_those_of_the_functions():
    assert functional._LinearKeywords.__annotations__.keys() == keywords(tw.linear_cross_entropy).keys()
    assert functional._Keywords.__annotations__.keys() == keywords(tw.cross_entropy).keys()
    own = keywords(tw.nn.LinearCrossEntropyLoss.__init__)
    assert nn._Keywords.__annotations__.keys() == {**own, **functional.LinearLossOptions.__annotations__}.keys()

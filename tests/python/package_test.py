"""The package itself: the library that it finds, its cache of prepared calls, and its neighbours in one process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tilewright
import tilewright.torch as tw
from tilewright import _library
from tilewright.torch import _calls

FOLDER = str(Path(tilewright.__file__).resolve().parents[1])


def run_python(program, **environment):
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": FOLDER, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_versions():
    assert tilewright.library_version() == tilewright.__version__
    assert (Path(tilewright.__file__).parent / "py.typed").exists()


def test_a_library_that_is_not_there():
    out = run_python("import tilewright\ntry: tilewright.library_version()\nexcept ImportError as e: print(e)",
                     TILEWRIGHT_LIBRARY="/no/such.so")
    assert "expected one of /no/such.so, found none" in out


LOSS = """
import torch, tilewright.torch as tw
x = torch.randn(8, 4, requires_grad=True); w = torch.randn(11, 4, requires_grad=True); y = torch.arange(8)
tw.linear_cross_entropy(x, w, y).backward()
expected = torch.autograd.grad(torch.nn.functional.cross_entropy(x @ w.T, y), w)[0]
assert torch.allclose(w.grad, expected, atol=1e-5)
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_in_one_process_with_triton(order):
    pytest.importorskip("triton")
    triton = "import triton, triton.language\nimport triton._C.libtriton\n"
    run_python(triton + LOSS if order == "before" else LOSS + triton + LOSS)


def test_importing_loads_no_library():
    run_python("import tilewright.torch\nfrom tilewright import _library\nassert _library._library is None")


def test_prepared_calls_are_found_again_and_bounded(monkeypatch):
    monkeypatch.setattr(_calls, "_cache", _calls._Cache(3))
    w = torch.randn(11, 4)
    for rows in (1, 2, 3, 4, 5):
        tw.linear_cross_entropy(torch.randn(rows, 4), w, torch.zeros(rows, dtype=torch.int64))
    assert len(tw.prepared_calls()) == 3
    kept = _calls._cache.values()[-1]
    tw.linear_cross_entropy(torch.randn(5, 4), w, torch.zeros(5, dtype=torch.int64))
    assert _calls._cache.values()[-1] is kept
    tw.forget_prepared_calls()
    assert tw.prepared_calls() == []


def test_a_configuration_is_that_of_calls_with_gradients_or_of_those_without():
    x, w, y = torch.randn(40, 4, requires_grad=True), torch.randn(11, 4), torch.arange(40) % 11

    def made(*options, **more):
        tw.forget_prepared_calls()
        tw.linear_cross_entropy(*options, **more).sum().backward()
        return [call.configuration for call in tw.prepared_calls()]

    planned, = made(x, w, y)
    pinned = planned.replace("variant=whole", "variant=chunked").replace("chunk_rows=64", "chunk_rows=16")
    assert pinned != planned and made(x, w, y, configuration=pinned) == [pinned]
    forward, backward = made(x, w, y, configuration=pinned, reduction="none")
    assert forward.startswith("variant=loss_only") and backward == pinned
    smaller = re.sub("chunk_rows=[0-9]+", "chunk_rows=8", forward)
    assert made(x, w, y, configuration=smaller, reduction="none") == [smaller, planned]
    with pytest.raises(tilewright.UserError, match="configuration: expected NAME=VALUE"):
        tw.linear_cross_entropy(x, w, y, configuration="fast")


def test_structures_have_the_size_that_the_library_expects():
    """A wrong size is an error of the library's; this says which structure it is."""
    header = Path(tilewright.__file__).resolve().parents[3] / "bindings" / "c" / "tilewright.h"
    if not header.exists():
        pytest.skip("no header beside the package")
    text = header.read_text()
    for structure, name in ((_library.LinearCrossEntropyTensors, "tw_linear_cross_entropy_tensors"),
                            (_library.CrossEntropyTensors, "tw_cross_entropy_tensors")):
        body = text[text.index(f"typedef struct {name} {{"):text.index(f"}} {name};")]
        declared = [line.split("*")[1].split(";")[0] for line in body.replace("DLTensor\n      *", "DLTensor *")
                    .splitlines() if "DLTensor *" in line]
        assert tuple(declared) == structure.names


def test_a_forked_child_gets_an_error():
    out = run_python(LOSS + """
import os
child = os.fork()
if child == 0:
    try:
        tw.linear_cross_entropy(x, w, y)
    except ValueError as error:
        os._exit(0 if "forked" in str(error) else 2)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert out.strip().splitlines()[-1] == "0"


@pytest.mark.parametrize("page", ["README.md", "bindings/python/README.md"])
def test_code_of_the_pages(page):
    text = (Path(FOLDER).parents[1] / page).read_text()
    code = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert code
    hidden = torch.randn(2, 5, 8, requires_grad=True)
    names = {"hidden": hidden, "lm_head": torch.nn.Linear(8, 11), "labels": torch.randint(0, 11, (2, 5))}
    for block in code:
        exec(block, names)
    expected = torch.nn.functional.cross_entropy((hidden @ names["lm_head"].weight.T)[:, :-1].flatten(0, 1),
                                                 names["labels"][:, 1:].flatten())
    assert torch.allclose(names["loss"], expected)

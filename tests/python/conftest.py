"""Devices: every test that takes `device` runs on the CPU, and on a GPU where there is one.

TILEWRIGHT_TEST_DEVICE=cuda runs those on a GPU alone.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings" / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ.setdefault("TILEWRIGHT_CACHE_DIR", os.path.join(os.environ.get("TEST_TMPDIR", tempfile.gettempdir()),
                                                           "tilewright-python-tests"))

import pytest  # noqa: E402
import torch  # noqa: E402


def devices():
    wanted = os.environ.get("TILEWRIGHT_TEST_DEVICE")
    if wanted:
        return [wanted]
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", devices())


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)

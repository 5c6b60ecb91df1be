"""The program that measures a vocabulary over several GPUs: its checks, in processes on the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "gpu" / "vocabulary_over_gpus.py"


@pytest.mark.parametrize("ranks", [1, 2])
def test_its_checks_pass(ranks):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node",
                str(ranks)]
    done = subprocess.run(
        [sys.executable, *(launcher if ranks > 1 else []), str(PROGRAM), "--device", "cpu", "--shape", "50,12,77",
         "--steps", "5"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TILEWRIGHT_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=240)
    assert done.returncode == 0 and "all checks passed" in done.stdout, done.stdout
    assert f"{ranks} × CPU, gloo" in done.stdout and "dX scattered after dW" in done.stdout

#!/usr/bin/python3 -B
"""Runs a file of tests with pytest, under TILEWRIGHT_TEST_PYTHON or the python3 at hand; skips it where that has no
torch. `tools/test --torch` sees to one that has."""

import os
import shutil
import subprocess
import sys


def skip(path, reason):
    print(f"SKIPPED {path}: {reason}")
    with open(os.environ["XML_OUTPUT_FILE"], "w") as file:
        file.write(f'<testsuites><testsuite><testcase name="{os.path.basename(path)}" classname="pytest">'
                   f'<skipped message="{reason}"/></testcase></testsuite></testsuites>')


def main():
    path = sys.argv[1]
    python = os.environ.get("TILEWRIGHT_TEST_PYTHON") or shutil.which("python3")
    found = subprocess.run([python, "-c", "import torch, pytest"], stderr=subprocess.DEVNULL)
    if found.returncode != 0:
        return skip(path, f"{python} has no torch and pytest: tools/test --torch makes one that has")
    scratch = os.environ["TEST_TMPDIR"]
    environment = {
        "HOME": scratch, **os.environ, "PYTHONDONTWRITEBYTECODE": "1",
        "TILEWRIGHT_LIBRARY": os.path.abspath("bindings/c/libtilewright.so"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(scratch, "inductor"),
        "PYTHONWARNINGS": "ignore",
    }
    sys.exit(subprocess.run([python, "-m", "pytest", "-q", "-rs", "--tb=short", "-p", "no:cacheprovider",
                             "--junitxml", os.environ["XML_OUTPUT_FILE"], path], env=environment).returncode)


main()

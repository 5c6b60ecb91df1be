"""lit's configuration; tools/build/lit_test.sh puts the tools on PATH."""

import os
import shutil

import lit.formats

config.name = os.environ.get("TEST_TARGET", "tilewright")
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_exec_root = os.environ["TEST_TMPDIR"]
config.environment["PATH"] = os.environ["PATH"]

# A test that needs one of these says `REQUIRES: ptxas`, and is counted as skipped where it is missing.
for tool in ["ptxas", "llvm-mca-19"]:
    if shutil.which(tool):
        config.available_features.add(tool)

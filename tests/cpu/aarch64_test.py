#!/usr/bin/python3 -B
"""Kernels' code for 64-bit ARM, built by a cross compiler and run under qemu, against float64."""

import os
import shutil
import subprocess
import tempfile
import unittest

TILEWRIGHT = os.path.abspath("tools/tilewright")
DRIVER = os.path.abspath("tests/cpu/aarch64_driver.cpp")
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
KERNELS = ("row_softmax", "matmul", "lce_forward", "lce_dw", "lce_dx")


class Aarch64Test(unittest.TestCase):
    def setUp(self):
        for tool, package in ((COMPILER, "g++-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
            if not shutil.which(tool):
                print(f"SKIPPED: no {tool} on this machine (Debian's {package})", flush=True)
                self.skipTest(f"no {tool}")

    def check(self, folder, kernel, dtype):
        assembly, program = os.path.join(folder, kernel + ".s"), os.path.join(folder, kernel)
        subprocess.run([TILEWRIGHT, "emit", "--kernel", kernel, "--target", "aarch64", "--dtype", dtype, "--stage", "asm",
                        "-o", assembly], check=True)
        subprocess.run([COMPILER, "-std=c++17", "-O1", "-static", f"-DKERNEL={kernel}", f"-DTYPE={dtype}", DRIVER, assembly,
                        "-o", program], check=True)
        done = subprocess.run([EMULATOR, program], stdout=subprocess.PIPE, timeout=200)
        self.assertEqual(done.returncode, 0, f"largest error {done.stdout.decode()}")

    def test_kernels_are_right(self):
        with tempfile.TemporaryDirectory() as folder:
            for kernel in KERNELS:
                for dtype in ("f32", "bf16", "f16"):
                    if (kernel, dtype) in (("lce_forward", "f16"), ("lce_dw", "f16")):
                        continue  # have other parameters
                    with self.subTest(kernel=kernel, dtype=dtype):
                        self.check(folder, kernel, dtype)


if __name__ == "__main__":
    unittest.main()

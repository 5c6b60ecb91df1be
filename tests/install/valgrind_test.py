#!/usr/bin/python3 -B
"""The examples in C under valgrind: no access that is wrong, no value that was never set, no block that is lost.

The processor that valgrind simulates has no AVX-512: kernels are compiled for it, in the process or, for a bundle, by
the command line under valgrind, too."""

import os
import shutil
import unittest

import installed


class ValgrindTest(installed.InstalledTree):
    def setUp(self):
        if not shutil.which("valgrind"):
            self.skipTest("no valgrind on this machine")

    def check(self, *program, prints="relative error", **environment):
        out = self.run_program("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
                               "--errors-for-leak-kinds=definite,possible", *program, TILEWRIGHT_CACHE_DIR="off", **environment)
        self.assertIn(prints, out)
        self.assertNotIn("==", out)

    def test_the_scoring_service_with_a_compiler(self):
        build = os.path.join(self.folder, "build")
        self.build_with_cmake(self.prefix, build)
        self.check(os.path.join(build, "scoring_service"))

    def test_all_examples_with_a_bundle(self):
        build, bundle = os.path.join(self.folder, "runtime build"), os.path.join(self.folder, "bundle")
        self.export(bundle, "70,48,301", "33,40,257", "64,64,512", under=("valgrind", "--tool=none", "--quiet"))
        self.build_with_cmake(self.prefix, build, "runtime")
        self.check(os.path.join(build, "training_step"), TILEWRIGHT_BUNDLES=bundle)
        self.check(os.path.join(build, "scoring_service"), TILEWRIGHT_BUNDLES=bundle)
        self.check(os.path.join(build, "first_call"), "2", prints="first call", TILEWRIGHT_BUNDLES=bundle)


if __name__ == "__main__":
    unittest.main(verbosity=2)

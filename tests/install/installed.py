"""What tests of the installed tree share: a prefix, and programs that are built against it."""

import os
import shutil
import subprocess
import tempfile
import unittest

SOURCES = os.path.abspath("examples/c")


class InstalledTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.environment = {"PATH": "/usr/bin:/bin", "TILEWRIGHT_CACHE_DIR": os.path.join(cls.folder, "cache")}
        cls.prefix = os.path.join(cls.folder, "a prefix")
        cls.install(cls.prefix)

    @classmethod
    def install(cls, prefix):
        cls.run_program("python3", "tools/build/install_tree.py", "--prefix", prefix,
                        "--header", "bindings/c/tilewright.h", "--library", "bindings/c/libtilewright.so",
                        "--runtime-library", "bindings/c/libtilewright_runtime.so",
                        "--cpp-library", "bindings/cpp/libtilewright_cpp.so", "--program", "tools/tilewright-portable")

    @classmethod
    def run_program(cls, *words, **environment):
        done = subprocess.run(words, env={**cls.environment, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def library(self, name="libtilewright.so"):
        return os.path.join(self.prefix, "lib", name)

    def build_with_cmake(self, prefix, build, library="tilewright"):
        """The examples, linked with tilewright::LIBRARY."""
        self.run_program("cmake", "-S", SOURCES, "-B", build, "-DCMAKE_PREFIX_PATH=" + prefix,
                         "-DTILEWRIGHT_LIBRARY=tilewright::" + library, "-DCMAKE_C_FLAGS=-Werror")
        self.run_program("cmake", "--build", build)

    def export(self, bundle, *shapes, under=()):
        """A bundle for these shapes; `under`: a program that runs the command."""
        words = [word for shape in shapes for word in ("--shape", shape)]
        self.run_program(*under, os.path.join(self.prefix, "bin", "tilewright"), "export", "--bundle", bundle, "--target", "cpu",
                         *words, TILEWRIGHT_CACHE_DIR="off")

#!/usr/bin/python3 -B
"""The installed tree: programs built against it with CMake and with pkg-config are right, also when it was moved."""

import os
import re
import unittest

import installed
from installed import SOURCES

EXAMPLES = ("training_step", "scoring_service")
LIBRARIES = ("libtilewright.so", "libtilewright_runtime.so")


class InstallTest(installed.InstalledTree):
    def check_examples(self, build, **environment):
        for example in EXAMPLES:
            out = self.run_program(os.path.join(build, example), **environment)
            self.assertIn("relative error", out)

    def build_with_pkg_config(self, prefix, build):
        os.makedirs(build)
        flags = self.run_program("pkg-config", "--cflags", "--libs", "tilewright",
                                 PKG_CONFIG_PATH=os.path.join(prefix, "lib", "pkgconfig"))
        for example in EXAMPLES:
            self.run_program("sh", "-c", "cc -std=c99 -D_POSIX_C_SOURCE=200112L -O1 -Wall -Werror "
                             f"-Wno-unused-function -o '{build}/{example}' '{SOURCES}/{example}.c' {flags.strip()} "
                             f"-Wl,-rpath,'{prefix}/lib' -lm -lpthread -ldl")

    def test_cmake_and_pkg_config_before_and_after_a_move(self):
        first, moved = os.path.join(self.folder, "first"), os.path.join(self.folder, "elsewhere", "moved")
        self.install(first)
        before = {}
        for name, build in (("cmake", self.build_with_cmake), ("pkg-config", self.build_with_pkg_config)):
            before[name] = os.path.join(self.folder, name + " before")
            build(first, before[name])
            self.check_examples(before[name])
        os.makedirs(os.path.dirname(moved))
        os.rename(first, moved)
        for name, build in (("cmake", self.build_with_cmake), ("pkg-config", self.build_with_pkg_config)):
            self.check_examples(before[name], LD_LIBRARY_PATH=os.path.join(moved, "lib"))
            after = os.path.join(self.folder, name + " after")
            build(moved, after)
            self.check_examples(after)

    def test_bundles_in_place_of_a_compiler(self):
        """The examples, linked with the library without LLVM; as one bundle serves all numbers of rows, with fewer."""
        build, bundle = os.path.join(self.folder, "with runtime"), os.path.join(self.folder, "bundle")
        self.export(bundle, "100,48,301", "50,40,257", "64,64,512")
        self.build_with_cmake(self.prefix, build, "runtime")
        self.check_examples(build, TILEWRIGHT_BUNDLES=bundle)
        out = self.run_program(os.path.join(build, "first_call"), TILEWRIGHT_BUNDLES=bundle)
        self.assertRegex(out, r"0 compiled, 0 from disk, [1-9]\d* from bundles")
        with self.assertRaisesRegex(AssertionError, "open a bundle of kernels"):
            self.check_examples(build)

    def check_first_kernel(self, prefix, build):
        """With CMake, and with pkg-config."""
        source = os.path.abspath("examples/cpp")
        self.run_program("cmake", "-S", source, "-B", build, "-DCMAKE_PREFIX_PATH=" + prefix,
                         "-DCMAKE_CXX_FLAGS=-Werror")
        self.run_program("cmake", "--build", build)
        flags = self.run_program("pkg-config", "--cflags", "--libs", "tilewright-cpp",
                                 PKG_CONFIG_PATH=os.path.join(prefix, "lib", "pkgconfig"))
        self.run_program("sh", "-c", f"c++ -Wall -Werror -o '{build}/by_pkg_config' '{source}/first_kernel.cpp' "
                         f"{flags.strip()} -Wl,-rpath,'{prefix}/lib'")
        for program in ("first_kernel", "by_pkg_config"):
            self.assertIn("against float64", self.run_program(os.path.join(build, program)))

    def test_a_first_kernel_in_cpp(self):
        first, moved = os.path.join(self.folder, "cpp first"), os.path.join(self.folder, "cpp moved")
        self.install(first)
        self.check_first_kernel(first, os.path.join(self.folder, "cpp build"))
        os.rename(first, moved)
        self.run_program(os.path.join(self.folder, "cpp build", "first_kernel"),
                         LD_LIBRARY_PATH=os.path.join(moved, "lib"))
        self.check_first_kernel(moved, os.path.join(self.folder, "cpp build again"))

    def test_losses_in_cpp(self):
        """Headers that no example includes."""
        program = os.path.join(self.folder, "losses")
        flags = self.run_program("pkg-config", "--cflags", "--libs", "tilewright-cpp",
                                 PKG_CONFIG_PATH=os.path.join(self.prefix, "lib", "pkgconfig"))
        self.run_program("sh", "-c", f"c++ -O1 -Wall -Wextra -Werror -o '{program}' tests/install/losses.cpp {flags.strip()} "
                         f"-Wl,-rpath,'{self.prefix}/lib'")
        self.assertIn("from that of the logits", self.run_program(program))

    def test_the_example_is_the_readmes(self):
        with open("README.md") as readme, open("examples/cpp/first_kernel.cpp") as example:
            kernel = re.search(r"^Kernel rowSoftmax.*?^}\n\n.*?^}\n", readme.read(), re.M | re.S).group(0)
            self.assertIn(" ".join(kernel.split()), " ".join(example.read().split()))

    def test_the_command_line(self):
        program = os.path.join(self.prefix, "bin", "tilewright")
        self.assertIn("tilewright export", self.run_program(program, "--help"))
        assembly = self.run_program(program, "emit", "--kernel", "row_softmax", "--target", "sm_90a", "--stage", "ptx")
        self.assertIn(".entry row_softmax", assembly)

    def test_manners(self):
        """Neither library ends the process, writes, handles signals, or has work at exit, linked or loaded at run time and
        unloaded; with a cache, which it writes, it is seen."""
        guard, build = os.path.join(self.folder, "manners.so"), os.path.join(self.folder, "manners build")
        bundle, plug_in = os.path.join(self.folder, "manners bundle"), os.path.join(self.folder, "plug_in")
        self.run_program("cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", guard, "tests/install/manners.c", "-ldl")
        self.run_program("cc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-Wno-unused-function", "-o", plug_in,
                         "tests/install/plug_in.c", "-I" + SOURCES, "-I" + os.path.join(self.prefix, "include"), "-lm", "-ldl")
        self.export(bundle, "70,48,301")
        for library, watched in (("tilewright", "libtilewright.so"), ("runtime", "libtilewright_runtime.so")):
            self.build_with_cmake(self.prefix, build, library)
            program = os.path.join(build, "training_step")
            watch = {"LD_PRELOAD": guard, "TILEWRIGHT_WATCHED": watched}
            for words in ((program,), (plug_in, self.library(watched))):
                self.run_program(*words, TILEWRIGHT_CACHE_DIR="off", TILEWRIGHT_BUNDLES=bundle, **watch)
                if library == "tilewright":
                    self.run_program(*words, TILEWRIGHT_CACHE_DIR="off", **watch)
            if library == "tilewright":
                with self.assertRaisesRegex(AssertionError, "the library called write"):
                    self.run_program(program, TILEWRIGHT_CACHE_DIR=os.path.join(self.folder, "new cache"), **watch)
            else:
                with self.assertRaisesRegex(AssertionError, "open a bundle"):
                    self.run_program(program, TILEWRIGHT_CACHE_DIR="off", **watch)

    def lack_of_memory(self, library, *words, **environment):
        """Allocations fail in turn: none ends the process, each that is told of is a code, and none leaves a block behind."""
        program = os.path.join(self.folder, "lack_of_memory_" + library)
        self.run_program("cc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-Wno-unused-function", "-o", program,
                         "tests/install/lack_of_memory.c", "-I" + SOURCES, "-I" + os.path.join(self.prefix, "include"),
                         "-L" + os.path.join(self.prefix, "lib"), "-l" + library, "-Wl,-rpath," + os.path.join(self.prefix, "lib"),
                         "-lm")
        out = self.run_program(program, "lib" + library + ".so", *words, TILEWRIGHT_CACHE_DIR="off", **environment)
        return [int(number) for number in re.findall(r"\d+", out)]

    def test_lack_of_memory_without_a_compiler(self):
        bundle = os.path.join(self.folder, "memory bundle")
        self.export(bundle, "3,8,13")
        for what in ("one", "rest"):
            failed, all_of_them, codes, _ = self.lack_of_memory("tilewright_runtime", "step", what, "0",
                                                                TILEWRIGHT_BUNDLES=bundle)
            self.assertGreater(failed, all_of_them - 50)  # threads make the number differ from round to round
            self.assertGreater(codes, 500)

    def test_lack_of_memory_of_the_compiler(self):
        """One kernel, as LLVM allocates tens of thousands of times for it; most that fail alone come from the reserve."""
        for what in ("one", "rest"):
            failed, _, codes, _ = self.lack_of_memory("tilewright", "scale", what, "10")
            self.assertGreater(failed, 80)
            self.assertGreater(codes, 0)

    def test_nothing_is_done_at_exit(self):
        """The one function that the linker adds to each library stands alone, and finds nothing that was registered."""
        for library in LIBRARIES:
            dynamic = self.run_program("readelf", "-dW", self.library(library))
            self.assertRegex(dynamic, r"\(FINI_ARRAYSZ\) +8 ")
            undefined = self.run_program("nm", "-D", "--undefined-only", self.library(library))
            self.assertNotRegex(undefined, r"\b(__cxa_atexit|atexit|on_exit)\b")

    def test_symbols(self):
        with open(os.path.join(self.prefix, "include", "tilewright.h")) as file:
            declared = set(re.findall(r"\b(tw_\w+)\(", file.read()))
        for library in LIBRARIES:
            symbols = self.run_program("nm", "-D", "--defined-only", self.library(library))
            names = [line.split()[-1] for line in symbols.splitlines()]
            self.assertEqual([name for name in names if not name.startswith("tw_")], [])
            self.assertEqual(set(names), declared)

    def test_symbols_of_the_cpp_library(self):
        """What is in namespace tilewright, with its types' information; nothing of LLVM, MLIR or others."""
        symbols = self.run_program("nm", "-DC", "--defined-only", self.library("libtilewright_cpp.so"))
        names = [re.match(r"\S+ \w (.*)", line).group(1) for line in symbols.splitlines()]
        others = [name for name in names
                  if not re.match(r"((typeinfo|typeinfo name|vtable|guard variable) for )?tilewright::", name)]
        self.assertEqual(others, [])
        self.assertIn("tilewright::linearCrossEntropy(", "\n".join(names))

    def test_needs_no_llvm(self):
        for library in (*LIBRARIES, "../bin/tilewright"):
            dynamic = self.run_program("readelf", "-dW", self.library(library))
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
            self.assertEqual([name for name in needed if re.search("LLVM|MLIR|stdc", name)], [])
            self.assertNotIn("RUNPATH", dynamic)
            self.assertNotIn("RPATH", dynamic)
            if library in LIBRARIES:
                self.assertIn(f"[{library}.1]", dynamic)
                self.assertIn("NODELETE", dynamic)

    def test_the_library_without_a_compiler_is_small(self):
        self.assertLess(os.path.getsize(self.library("libtilewright_runtime.so")), 3 << 20)

    def test_glibc_2_34_is_enough(self):
        symbols = self.run_program("objdump", "-T", self.library())
        versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", symbols)}
        self.assertLessEqual(max(versions), (2, 34))

    def test_loaded_at_run_time_beside_other_llvm(self):
        """Debian's own MLIR, loaded first or last, global, exports 81 000 symbols of the names in the library."""
        mlir = "/usr/lib/llvm-19/lib/libMLIR.so.19.1"
        if not os.path.exists(mlir):
            mlir = "/usr/lib/llvm-19/lib/libMLIR.so"
        if not os.path.exists(mlir):
            self.skipTest("no libMLIR of Debian's")
        bundle = os.path.join(self.folder, "scaling bundle")
        self.export(bundle, "1,1,2")
        for library, bundles in (("libtilewright.so", ""), ("libtilewright_runtime.so", bundle)):
            for order in ((OTHER, OURS), (OURS, OTHER)):
                program = "import ctypes, sys\n" + "\n".join(order) + SCALE
                out = self.run_program("python3", "-B", "-c", program, self.library(library), mlir, TILEWRIGHT_BUNDLES=bundles)
                self.assertEqual(out.split(), ["3.0"])


OTHER, OURS = "ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)", "ours = ctypes.CDLL(sys.argv[1])"

# Compiles a kernel, or gets it from a bundle, and runs it: 2 x 1.5.
SCALE = """
class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]
class Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int), ("dtype", Type),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]
class Options(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("cache", ctypes.c_char_p), ("target", ctypes.c_char_p),
                ("threads", ctypes.c_int32), ("autotune", ctypes.c_int32)]
f32 = Type(2, 32, 1)
one = (ctypes.c_int64 * 1)(1)
def tensor(value):
    return Tensor(ctypes.addressof(value), Device(1, 0), 1, f32, one, None, 0)
def check(code):
    if code:
        ours.tw_error_message.restype = ctypes.c_char_p
        sys.exit(ours.tw_error_message(error).decode())
runtime, scaling, error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
options = Options(ctypes.sizeof(Options), b"off", None, 0, 0)
ours.tw_gradient_scaling_prepare.argtypes = [ctypes.c_void_p, Type, ctypes.c_void_p, ctypes.c_void_p]
check(ours.tw_runtime_open(b"cpu", ctypes.byref(options), ctypes.byref(runtime), ctypes.byref(error)))
check(ours.tw_gradient_scaling_prepare(runtime, f32, ctypes.byref(scaling), ctypes.byref(error)))
gradient, factor, result = ctypes.c_float(1.5), ctypes.c_float(2), ctypes.c_float(0)
a, b, c = tensor(gradient), tensor(factor), tensor(result)
tensors = [ctypes.byref(a), ctypes.byref(b), ctypes.byref(c)]
check(ours.tw_gradient_scaling_run(scaling, *tensors, None, ctypes.byref(error)))
print(result.value)
"""

if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Rules of this tree: warnings are errors, and includes are relative to the root of the repository."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

_COPTS = ["-Wall", "-Wextra", "-Werror"]

# Compiling MLIR's templates costs far more than what they gain from -O2.
_MLIR_COPTS = _COPTS + ["-O1", "-Wno-unused-parameter", "-Wno-misleading-indentation"]
_MLIR_DEPS = ["@llvm//:mlir"]

def tw_cc_library(name, copts = [], **kwargs):
    cc_library(name = name, copts = _COPTS + copts, **kwargs)

def tw_cc_binary(name, copts = [], **kwargs):
    cc_binary(name = name, copts = _COPTS + copts, **kwargs)

def tw_cc_test(name, deps = [], copts = [], **kwargs):
    """A googletest test; its main comes along."""
    cc_test(name = name, copts = _COPTS + copts, deps = deps + ["//third_party:gtest_main"], **kwargs)

def tw_mlir_library(name, deps = [], copts = [], **kwargs):
    """A library whose sources include MLIR's headers."""
    cc_library(name = name, copts = _MLIR_COPTS + copts, deps = deps + _MLIR_DEPS, **kwargs)

def tw_mlir_binary(name, deps = [], copts = [], **kwargs):
    cc_binary(name = name, copts = _MLIR_COPTS + copts, deps = deps + _MLIR_DEPS, **kwargs)

def tw_mlir_test(name, deps = [], copts = [], **kwargs):
    """A googletest test whose sources include MLIR's headers."""
    cc_test(
        name = name,
        copts = _MLIR_COPTS + copts,
        deps = deps + _MLIR_DEPS + ["//third_party:gtest_main"],
        **kwargs
    )

def compiler_sources():
    """This package's part of what the compiler's version is a digest of."""
    native.filegroup(
        name = "sources",
        srcs = native.glob(["*.cpp", "*.h", "*.td"], allow_empty = True),
        visibility = ["//compiler/base:__pkg__"],
    )

def mlir_tblgen(name, td, outs, deps = [], visibility = None):
    """Runs mlir-tblgen on one .td file.

    Args:
      name: a cc_library with the generated files as headers; add it to the deps of what includes them.
      td: the .td file.
      outs: output file -> arguments, e.g. {"tile_ops.h.inc": "-gen-op-decls"}.
      deps: other .td files that `td` includes.
      visibility: of the library.
    """
    for out, arguments in outs.items():
        native.genrule(
            name = name + "_" + out.replace(".", "_"),
            srcs = [td] + deps,
            outs = [out],
            cmd = "$(location @llvm//:mlir-tblgen) -I /usr/lib/llvm-19/include -I . %s $(location %s) -o $@" %
                  (arguments, td),
            message = "mlir-tblgen",
            tools = ["@llvm//:mlir-tblgen"],
        )
    cc_library(name = name, textual_hdrs = outs.keys(), visibility = visibility)

def lit_test(name, srcs, tools, data = [], **kwargs):
    """Runs lit over test files.

    Args:
      name: the test.
      srcs: files with RUN lines, under tests/lit.
      tools: programs that RUN lines name; FileCheck and not are always there.
      data: other files that the tests read.
      **kwargs: passed to sh_test.
    """
    native.sh_test(
        name = name,
        srcs = ["//tools/build:lit_test.sh"],
        args = ["$(location %s)" % tool for tool in tools] + ["--"] + ["$(location %s)" % src for src in srcs],
        data = srcs + tools + data + ["//tests/lit:lit.cfg.py"],
        **kwargs
    )

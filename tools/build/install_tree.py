"""Puts the built libraries, their header and the command line under a prefix, for CMake and pkg-config to find.

Every path in the files written is relative to the file itself, so that the prefix may be moved."""

import argparse
import os
import re
import shutil

# What C++ programs include, from the root of the tree.
CPP_HEADERS = ("kernels/bundle_writer.h", "kernels/cross_entropy.h", "kernels/gradient_scaling.h", "kernels/jit.h",
               "kernels/linear_cross_entropy.h", "kernels/linear_logits.h", "kernels/sharded_linear_cross_entropy.h",
               "kernels/tune_linear_cross_entropy.h")

CONFIG = """# find_package(tilewright) gives tilewright::tilewright, the C library, tilewright::runtime, the one without a compiler,
# and tilewright::cpp, for C++ programs and kernels of their own.
get_filename_component(_tilewright_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_path(tilewright_DLPACK_INCLUDE_DIR dlpack/dlpack.h)
if(NOT tilewright_DLPACK_INCLUDE_DIR)
  set(tilewright_FOUND FALSE)
  set(tilewright_NOT_FOUND_MESSAGE
    "expected dlpack/dlpack.h, which tilewright.h includes, found none (Debian: libdlpack-dev)")
  return()
endif()
if(NOT TARGET tilewright::tilewright)
  foreach(_tilewright_library tilewright runtime)
    set(_tilewright_name libtilewright)
    if(_tilewright_library STREQUAL "runtime")
      set(_tilewright_name libtilewright_runtime)
    endif()
    add_library(tilewright::${_tilewright_library} SHARED IMPORTED)
    set_target_properties(tilewright::${_tilewright_library} PROPERTIES
      IMPORTED_LOCATION "${_tilewright_prefix}/lib/${_tilewright_name}.so.@ABI@"
      IMPORTED_SONAME "${_tilewright_name}.so.@ABI@"
      INTERFACE_INCLUDE_DIRECTORIES "${_tilewright_prefix}/include;${tilewright_DLPACK_INCLUDE_DIR}")
  endforeach()
  if(EXISTS "${_tilewright_prefix}/lib/libtilewright_cpp.so.0")
    add_library(tilewright::cpp SHARED IMPORTED)
    set_target_properties(tilewright::cpp PROPERTIES
      IMPORTED_LOCATION "${_tilewright_prefix}/lib/libtilewright_cpp.so.0"
      IMPORTED_SONAME "libtilewright_cpp.so.0"
      INTERFACE_INCLUDE_DIRECTORIES "${_tilewright_prefix}/include/tilewright-cpp"
      INTERFACE_COMPILE_FEATURES cxx_std_17)
  endif()
  unset(_tilewright_library)
  unset(_tilewright_name)
endif()
unset(_tilewright_prefix)
"""

CONFIG_VERSION = """# Of versions before 1.0, those with the same minor number fit each other; later ones with the same major number.
set(PACKAGE_VERSION "@VERSION@")
set(PACKAGE_VERSION_COMPATIBLE FALSE)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION AND PACKAGE_FIND_VERSION_MAJOR EQUAL @MAJOR@)
  if(@MAJOR@ GREATER 0 OR PACKAGE_FIND_VERSION_MINOR EQUAL @MINOR@)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
"""

PKG_CONFIG = """prefix=${pcfiledir}/../..
includedir=${prefix}/include
libdir=${prefix}/lib

Name: @LIBRARY@
Description: Fused linear + cross entropy, @HOW@
Version: @VERSION@
Cflags: -I${includedir}@CFLAGS@
Libs: -L${libdir} -l@LIBRARY@
"""


def copy(source, target, mode):
    """Replaces the target at once: a program that has it open keeps the old one."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    temporary = target + ".new"
    shutil.copyfile(source, temporary)
    os.chmod(temporary, mode)
    os.replace(temporary, target)


def write(text, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w") as file:
        file.write(text)


def headers_from(header, found):
    """This tree's headers that one of them includes, itself among them; paths from the root."""
    if header not in found:
        found.add(header)
        with open(header) as file:
            for included in re.findall(r'^#include "(.*)"', file.read(), re.M):
                headers_from(included, found)
    return found


def link(to, name):
    if os.path.lexists(name):
        os.remove(name)
    os.symlink(to, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--prefix", "--header", "--library", "--runtime-library", "--cpp-library", "--program"):
        parser.add_argument(option, required=True)
    arguments = parser.parse_args()
    prefix = arguments.prefix

    with open(arguments.header) as file:
        header = file.read()
    version = re.search(r'#define TW_VERSION "(.*)"', header).group(1)
    abi = re.search(r"#define TW_ABI_VERSION (\d+)", header).group(1)
    major, minor, _ = version.split(".")

    def filled(text, **more):
        for key, value in {"VERSION": version, "ABI": abi, "MAJOR": major, "MINOR": minor, **more}.items():
            text = text.replace(f"@{key}@", value)
        return text

    lib = os.path.join(prefix, "lib")
    copy(arguments.header, os.path.join(prefix, "include", "tilewright.h"), 0o644)
    copy(arguments.program, os.path.join(prefix, "bin", "tilewright"), 0o755)
    libraries = (
        ("tilewright", arguments.library, "tilewright", abi, "compiled when first called", ""),
        ("tilewright_runtime", arguments.runtime_library, "tilewright-runtime", abi, "with kernels from bundles", ""),
        ("tilewright_cpp", arguments.cpp_library, "tilewright-cpp", "0", "and kernels of one's own in C++",
         "/tilewright-cpp -std=c++17"),
    )
    for library, built, package, number, how, flags in libraries:
        name = f"lib{library}.so"
        copy(built, os.path.join(lib, f"{name}.{number}"), 0o755)
        link(f"{name}.{number}", os.path.join(lib, name))
        write(filled(PKG_CONFIG, LIBRARY=library, HOW=how, CFLAGS=flags), os.path.join(lib, "pkgconfig", package + ".pc"))
    found = set()
    for header in CPP_HEADERS:
        for path in headers_from(header, found):
            copy(path, os.path.join(prefix, "include", "tilewright-cpp", path), 0o644)
    write(filled(CONFIG), os.path.join(lib, "cmake", "tilewright", "tilewright-config.cmake"))
    write(filled(CONFIG_VERSION), os.path.join(lib, "cmake", "tilewright", "tilewright-config-version.cmake"))
    print(f"installed tilewright {version} under {prefix}")


main()

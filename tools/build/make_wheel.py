"""Writes the wheel of the Python package: its files, the shared library, and what pip wants to know.

The same inputs give the same bytes."""

import argparse
import base64
import hashlib
import os
import re
import zipfile

METADATA = """Metadata-Version: 2.1
Name: tilewright
Version: {version}
Summary: Linear + cross entropy, fused: the loss of a language model's last layer without its logits in memory
Requires-Python: >=3.10
Provides-Extra: torch
Requires-Dist: torch>=2.6; extra == "torch"
Provides-Extra: benchmark
Requires-Dist: matplotlib; extra == "benchmark"
Description-Content-Type: text/markdown

"""

WHEEL = """Wheel-Version: 1.0
Generator: tilewright
Root-Is-Purelib: false
Tag: {tag}
"""


def files_of(package):
    """(path on disk, path in the wheel) of the package's files."""
    base = os.path.dirname(os.path.abspath(package))
    for folder, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if name.endswith(".py") or name == "py.typed":
                path = os.path.join(folder, name)
                yield path, os.path.relpath(os.path.abspath(path), base)


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


class Wheel:
    def __init__(self, path):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, executable=False):
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self.archive.writestr(entry, data)
        self.record.append(f"{name},{digest(data)},{len(data)}")

    def close(self, record):
        self.record.append(f"{record},,")
        entry = zipfile.ZipInfo(record, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = 0o100644 << 16
        self.archive.writestr(entry, "\n".join(self.record) + "\n")
        self.archive.close()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", required=True, help="the folder tilewright")
    parser.add_argument("--library", required=True, help="libtilewright.so")
    parser.add_argument("--readme", required=True)
    parser.add_argument("--tag", default="py3-none-linux_x86_64")
    parser.add_argument("--out", required=True, help="a folder")
    arguments = parser.parse_args()

    version = re.search(r'__version__ = "(.*)"', read(os.path.join(arguments.package, "__init__.py")).decode()).group(1)
    os.makedirs(arguments.out, exist_ok=True)
    path = os.path.join(arguments.out, f"tilewright-{version}-{arguments.tag}.whl")
    wheel = Wheel(path)
    for source, name in files_of(arguments.package):
        wheel.add(name, read(source))
    wheel.add("tilewright/libtilewright.so", read(arguments.library), executable=True)
    information = f"tilewright-{version}.dist-info"
    wheel.add(f"{information}/METADATA", METADATA.format(version=version).encode() + read(arguments.readme))
    wheel.add(f"{information}/WHEEL", WHEEL.format(tag=arguments.tag).encode())
    wheel.close(f"{information}/RECORD")
    print(path)


main()

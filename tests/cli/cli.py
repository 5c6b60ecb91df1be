"""What the tests of the command line share: .npy files, the program itself, a reference, and a runner that writes JUnit XML."""

import array
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import quoteattr

PROGRAM = os.path.abspath("tools/tilewright")


def npy_header(descr, shape, fortran=False):
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}"
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def npy_bytes(values, shape, descr="<f4", fortran=False):
    """`values` in C order."""
    if fortran and len(shape) == 2:
        values = [values[i * shape[1] + j] for j in range(shape[1]) for i in range(shape[0])]
    codes = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I",
             "u8": "Q"}
    order = ">" if descr[0] == ">" else "<"
    return npy_header(descr, shape, fortran) + struct.pack(f"{order}{len(values)}{codes[descr[1:]]}", *values)


def read_npy(path):
    """The shape and the values of a float32 or int32 file that Tilewright wrote."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    end = 10 + struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:end], {"__builtins__": {}})
    assert header["descr"] in ("<f4", "<i4") and header["fortran_order"] is False, header
    values = array.array("f" if header["descr"] == "<f4" else "i", data[end:])
    assert len(values) == math.prod(header["shape"]), header
    return header["shape"], list(values)


def cross_entropy_rows(logits, labels, ignore=-100):
    """Loss, log-sum-exp and d(loss)/d(logits) of each row; zeros for an ignored one."""
    losses, lses, gradients = [], [], []
    for row, label in zip(logits, labels):
        if label == ignore:
            losses.append(0.0), lses.append(0.0), gradients.append([0.0] * len(row))
            continue
        top = max(row)
        lse = top + math.log(sum(math.exp(z - top) for z in row))
        losses.append(lse - row[label])
        lses.append(lse)
        gradients.append([math.exp(z - lse) - (j == label) for j, z in enumerate(row)])
    return losses, lses, gradients


def product(a, b):
    """Of matrices as lists of rows."""
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def transposed(a):
    return [list(column) for column in zip(*a)]


def flat(a):
    return [x for row in a for x in row]


class CliTest(unittest.TestCase):
    """Each test has a folder of its own as working directory, and no environment but what it sets."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = {"PATH": "/usr/bin:/bin", "TILEWRIGHT_CACHE_DIR": shared_cache()}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return name

    def tilewright(self, *words, **environment):
        return subprocess.run([PROGRAM, *map(str, words)], cwd=self.folder, env={**self.environment, **environment},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=250)

    def succeed(self, *words, **environment):
        done = self.tilewright(*words, **environment)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""), words)
        return done.stdout.decode()

    def refuse(self, expected, *words, code=2, **environment):
        """It ends with `code`, says `expected` on one line of stderr, and leaves the folder as it was."""
        before = self.snapshot()
        done = self.tilewright(*words, **environment)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{words}: {message}")
        self.assertIn(expected, message, words)
        self.assertEqual(message.count("\n"), 1, f"{words}: one line, {message}")
        self.assertTrue(message.startswith("tilewright"), message)
        self.assertEqual(self.snapshot(), before, words)
        return message

    def snapshot(self):
        """Every path below the folder and what is in it."""
        files = {}
        for root, folders, names in os.walk(self.folder):
            for name in folders + names:
                path = os.path.join(root, name)
                files[path] = open(path, "rb").read() if os.path.isfile(path) else None
        return files

    def assert_close(self, found, expected, tolerance):
        """In the Frobenius norm, relative; NaN equals NaN."""
        self.assertEqual(len(found), len(expected))
        pairs = [(a, b) for a, b in zip(found, expected) if not (math.isnan(a) and math.isnan(b))]
        difference = math.sqrt(sum((a - b) ** 2 for a, b in pairs))
        size = math.sqrt(sum(b * b for _, b in pairs))
        self.assertLessEqual(difference, tolerance * (size or 1), f"{found[:8]} against {expected[:8]}")


def shared_cache():
    """Kernels compiled by one test serve the next."""
    return os.path.join(os.environ["TEST_TMPDIR"], "cache")


class XmlResult(unittest.TextTestResult):
    """Also remembers each case, for the XML file that Bazel reads."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.cases = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.cases.append((test, ""))

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.cases.append((test, f"<failure message={quoteattr(str(error[1]))}/>"))

    def addError(self, test, error):
        super().addError(test, error)
        self.cases.append((test, f"<error message={quoteattr(str(error[1]))}/>"))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.cases.append((test, f"<skipped message={quoteattr(reason)}/>"))

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.cases.append((subtest, f"<failure message={quoteattr(str(error[1]))}/>"))

    def xml(self):
        lines = []
        for test, inside in self.cases:
            suite, name = test.id().rsplit(".", 1) if "." in test.id() else ("cli", test.id())
            lines.append(f"<testcase classname={quoteattr(suite)} name={quoteattr(name)}>{inside}</testcase>")
        return "<testsuites><testsuite name=\"cli\">" + "\n".join(lines) + "</testsuite></testsuites>\n"


def main():
    program = unittest.main(module="__main__", exit=False, verbosity=2,
                            testRunner=unittest.TextTestRunner(resultclass=XmlResult, verbosity=2))
    if "XML_OUTPUT_FILE" in os.environ:
        with open(os.environ["XML_OUTPUT_FILE"], "w") as file:
            file.write(program.result.xml())
    sys.exit(not program.result.wasSuccessful())

#!/usr/bin/python3
"""tools/test must never report a failure as a pass: what count_tests.py says of each way a test can end."""

import json
import os
import subprocess
import tempfile
import unittest

GTEST = """<testsuites><testsuite name="A">
<testcase name="good" classname="A" status="run"/>
<testcase name="bad" classname="A" status="run"><failure message="no"/></testcase>
<testcase name="absent" classname="A" status="run"><skipped message="no GPU"/></testcase>
<testcase name="off" classname="A" status="notrun"/>
</testsuite></testsuites>"""
LIT = """<testsuites><testsuite name="//t:lit">
<testcase classname="//t:lit.t" name="a.mlir"/>
<testcase classname="//t:lit.t" name="b.mlir"><skipped message="Missing required feature(s): ptxas"/></testcase>
</testsuite></testsuites>"""
ONE_GOOD = '<testsuites><testsuite><testcase name="good" classname="A"/></testsuite></testsuites>'


class CountTests(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def count(self, tests, exit_name="SUCCESS", check=()):
        """tests: label -> None (not built) or (status, xml). Returns the exit status and the lines printed."""
        events = []
        for label, outcome in tests.items():
            events.append({"id": {"targetConfigured": {"label": label}}, "configured": {"testSize": "SMALL"}})
            if outcome:
                uri = "file://" + self.write(label.replace("/", "_"), outcome[1])
                result = {"status": outcome[0], "testActionOutput": [{"name": "test.xml", "uri": uri}]}
                events.append({"id": {"testResult": {"label": label, "shard": 1}}, "testResult": result})
        events.append({"id": {"buildFinished": {}}, "finished": {"exitCode": {"name": exit_name}}})
        path = self.write("events", "\n".join(map(json.dumps, events)))
        command = ["/usr/bin/python3", "tools/build/count_tests.py", *check, path]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        return run.returncode, run.stdout.splitlines()

    def test_cases_of_googletest(self):
        status, lines = self.count({"//t:g": ("FAILED", GTEST)}, "TESTS_FAILED")
        self.assertEqual(status, 1)
        self.assertEqual(lines, ["SKIPPED //t:g A.absent: no GPU", "SKIPPED //t:g A.off: disabled",
                                 "FAILED //t:g A.bad", "1 passed, 1 failed, 2 skipped"])

    def test_cases_of_lit_and_an_outside_check(self):
        status, lines = self.count({"//t:lit": ("PASSED", LIT)}, check=["--check", "format", "0"])
        self.assertEqual(status, 0)
        self.assertEqual(lines, ["SKIPPED //t:lit b.mlir: Missing required feature(s): ptxas",
                                 "2 passed, 0 failed, 1 skipped"])

    def test_failed_outside_check(self):
        status, lines = self.count({"//t:g": ("PASSED", ONE_GOOD)}, check=["--check", "format", "123"])
        self.assertEqual((status, lines), (1, ["FAILED format", "1 passed, 1 failed, 0 skipped"]))

    def test_crash_after_the_last_case_that_was_written(self):
        status, lines = self.count({"//t:g": ("TIMEOUT", ONE_GOOD)}, "TESTS_FAILED")
        self.assertEqual((status, lines), (1, ["FAILED //t:g: timeout", "1 passed, 1 failed, 0 skipped"]))

    def test_truncated_report(self):
        status, lines = self.count({"//t:g": ("FAILED", GTEST[:80])}, "TESTS_FAILED")
        self.assertEqual((status, lines), (1, ["FAILED //t:g: failed", "0 passed, 1 failed, 0 skipped"]))

    def test_not_built(self):
        status, lines = self.count({"//t:g": None}, "BUILD_FAILURE")
        self.assertEqual((status, lines), (1, ["FAILED //t:g: not built", "0 passed, 1 failed, 0 skipped"]))

    def test_broken_target_that_is_no_test(self):
        status, lines = self.count({"//t:g": ("PASSED", ONE_GOOD)}, "BUILD_FAILURE")
        self.assertEqual((status, lines), (1, ["FAILED bazel: BUILD_FAILURE", "1 passed, 1 failed, 0 skipped"]))


if __name__ == "__main__":
    unittest.main()

"""Counts test cases over Bazel's build event files; prints what failed or was skipped, then the totals as the last line."""

import argparse
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


class Count:
    def __init__(self):
        self.passed = 0
        self.failed = []
        self.skipped = []

    def add_case(self, label, case):
        """A <testcase> of googletest, lit or Bazel itself (which writes one for a test that writes none)."""
        suite = case.get("classname", "//")
        name = case.get("name") if suite.startswith("//") else f"{suite}.{case.get('name')}"  # lit repeats the label
        name = f"{label} {name}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            self.failed.append(name)
        elif skipped is not None:
            reason = skipped.get("message") or (skipped.text or "").strip()
            self.skipped.append(f"{name}: {' '.join(reason.split())}")
        elif case.get("status") == "notrun":
            self.skipped.append(f"{name}: disabled")
        else:
            self.passed += 1

    def add_result(self, label, result):
        """One run of one test target; a shard of it counts on its own."""
        before = len(self.failed)
        for output in result.get("testActionOutput", []):
            if output["name"] == "test.xml":
                for case in cases_of(urllib.parse.urlparse(output["uri"]).path):
                    self.add_case(label, case)
        if result["status"] != "PASSED" and len(self.failed) == before:  # a crash or a timeout between two cases
            self.failed.append(f"{label}: {result['status'].lower()}")

    def add_events(self, path):
        with open(path) as file:
            events = [json.loads(line) for line in file]
        tests = set()
        results = {}
        exit_name = "no end of the build was recorded"
        for event in events:
            key = event["id"]
            if event.get("configured", {}).get("testSize"):
                tests.add(key["targetConfigured"]["label"])
            elif "testResult" in event:
                test = key["testResult"]
                results[test["label"], test.get("shard")] = event["testResult"]  # a later attempt replaces an earlier
            elif "finished" in event:
                exit_name = event["finished"]["exitCode"]["name"]
        for (label, _), result in results.items():
            self.add_result(label, result)
        unbuilt = tests - {label for label, _ in results}
        self.failed += [f"{label}: not built" for label in unbuilt]
        if exit_name not in ("SUCCESS", "TESTS_FAILED") and not unbuilt:
            self.failed.append(f"bazel: {exit_name}")


def cases_of(path):
    """A test that dies while it writes leaves an empty or broken file: no cases, and a status that says the rest."""
    try:
        return list(ElementTree.parse(path).iter("testcase"))
    except (ElementTree.ParseError, OSError):
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", nargs="*", help="files of bazel --build_event_json_file")
    parser.add_argument("--check", nargs=2, metavar=("NAME", "STATUS"), action="append", default=[],
                        help="a check that ran outside Bazel and its exit status")
    arguments = parser.parse_args()

    count = Count()
    for name, status in arguments.check:
        if status == "0":
            count.passed += 1
        else:
            count.failed.append(name)
    for path in arguments.events:
        count.add_events(path)

    for line in sorted(count.skipped):
        print("SKIPPED", line)
    for line in sorted(count.failed):
        print("FAILED", line)
    print(f"{count.passed} passed, {len(count.failed)} failed, {len(count.skipped)} skipped")
    sys.exit(1 if count.failed else 0)


main()

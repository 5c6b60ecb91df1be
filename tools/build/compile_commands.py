"""Turns the C++ actions of `bazel aquery --output=jsonproto` (standard input) into a compile_commands.json."""

import json
import sys

GCC_ONLY = {"-fno-canonical-system-headers", "-pass-exit-codes"}  # clang does not know these


def command(arguments, root, external):
    """The commands run in Bazel's execution root; here it is the source tree, which lacks only external/."""
    kept = [argument for argument in arguments if argument not in GCC_ONLY]
    kept = [external + argument[len("external"):] if argument.startswith("external/") else argument for argument in kept]
    return {"directory": root, "file": kept[kept.index("-c") + 1], "arguments": kept}


def main():
    root, external = sys.argv[1:]
    actions = json.load(sys.stdin)["actions"]
    commands = [command(action["arguments"], root, external) for action in actions if "-c" in action["arguments"]]
    json.dump(commands, sys.stdout, indent=1)
    sys.stdout.write("\n")


main()

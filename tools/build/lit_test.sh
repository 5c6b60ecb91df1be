#!/bin/bash
# Usage: lit_test.sh TOOL... -- TEST...    Runs LLVM's lit over the tests, with the tools and LLVM's own on PATH.
set -eu
bin=$TEST_TMPDIR/bin
mkdir -p "$bin"
while [[ $1 != -- ]]; do
  ln -sf "$PWD/$1" "$bin/$(basename "$1")"
  shift
done
shift
export PATH=$bin:/usr/lib/llvm-19/bin:$PATH
exec /usr/bin/python3 /usr/lib/llvm-19/build/utils/lit/lit.py -vv --workers 1 \
  --xunit-xml-output="$XML_OUTPUT_FILE" "$@"

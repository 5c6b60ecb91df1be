#!/bin/bash
# Usage: runtime_library_test.sh TILEWRIGHT C_API_TEST LIBRARY    Exports bundles of what the test calls, and runs it with them.
set -euo pipefail
export TILEWRIGHT_CACHE_DIR=off
folder=$TEST_TMPDIR
"$1" export --bundle "$folder/linear" --target cpu --shape 5,8,13 --kernel row_softmax
"$1" export --bundle "$folder/weights" --target cpu --shape 5,8,13 --class-weight
"$1" export --bundle "$folder/logits" --target cpu --shape 5,1,13 --over-logits
ln -s "$PWD/$3" "$folder/libtilewright_runtime.so.1" # its soname
export LD_LIBRARY_PATH=$folder
TILEWRIGHT_BUNDLES=$folder/linear:$folder/weights:$folder/logits TILEWRIGHT_TEST_HAS_NO_COMPILER=1 exec "$2"

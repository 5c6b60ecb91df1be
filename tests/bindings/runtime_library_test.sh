#!/bin/bash
# Usage: runtime_library_test.sh TILEWRIGHT C_API_TEST LIBRARY    Exports bundles of what the test calls, and runs it with them.
set -euo pipefail
export TILEWRIGHT_CACHE_DIR=off
folder=$TEST_TMPDIR
"$1" export --bundle "$folder/linear" --target cpu --shape 5,8,13 --kernel row_softmax
"$1" export --bundle "$folder/weights" --target cpu --shape 5,8,13 --class-weight
"$1" export --bundle "$folder/gradients" --target cpu --shape 5,8,13 --grad-lse --grad-entropy
"$1" export --bundle "$folder/tuned" --target cpu --shape 5,8,13 --configuration "variant=whole chunk_rows=8 \
forward_rows=16 forward_columns=64 forward_step=0 dx_rows=16 dx_columns=64 dx_step=0 dw_rows=32 dw_columns=64 dw_step=0"
"$1" export --bundle "$folder/logits" --target cpu --shape 5,1,13 --over-logits
ln -s "$PWD/$3" "$folder/libtilewright_runtime.so.1" # its soname
export LD_LIBRARY_PATH=$folder
TILEWRIGHT_BUNDLES=$folder/linear:$folder/weights:$folder/logits:$folder/gradients:$folder/tuned TILEWRIGHT_TEST_HAS_NO_COMPILER=1 exec "$2"

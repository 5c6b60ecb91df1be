#!/bin/bash
# Usage: runtime_library_test.sh TILEWRIGHT C_API_TESTS LIBRARY    Exports bundles of what the tests call, and runs them with
# these.
set -euo pipefail
export TILEWRIGHT_CACHE_DIR=off
folder=$TEST_TMPDIR
tilewright=$1
bundles=

bundle() { # NAME OPTION...
  "$tilewright" export --bundle "$folder/$1" --target cpu "${@:2}"
  bundles+=:$folder/$1
}

bundle linear --shape 5,8,13 --kernel row_softmax
bundle weights --shape 5,8,13 --class-weight
bundle gradients --shape 5,8,13 --grad-lse --grad-entropy
bundle tuned --shape 5,8,13 --configuration "variant=whole chunk_rows=8 forward_rows=16 forward_columns=64 forward_step=0 \
dx_rows=16 dx_columns=64 dx_step=0 dw_rows=32 dw_columns=64 dw_step=0"
bundle logits --shape 5,1,13 --over-logits
bundle bias --shape 5,8,13 --bias
for output in entropy argmax correct; do bundle $output --shape 5,8,13 --$output; done
bundle wide --shape 5,8,13 --dtype bf16 --grad-hidden f32 --grad-weight f32
bundle all_classes --shape 40,8,31
bundle shards --shape 40,8,31 --shards 2
ln -s "$PWD/$3" "$folder/libtilewright_runtime.so.1" # its soname
export LD_LIBRARY_PATH=$folder
TILEWRIGHT_BUNDLES=${bundles#:} TILEWRIGHT_TEST_HAS_NO_COMPILER=1 exec "$2"

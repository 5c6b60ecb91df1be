#!/bin/sh
# What product_bench expects of each product is what the kernels compute, on this processor.
export TILEWRIGHT_DEVICE=cpu TILEWRIGHT_CACHE_DIR=off
block=32x64
output=$(tests/gpu/product_bench --shape 70,40,300 --forward $block --loss $block --dx $block --dw $block \
    --dw-add $block --gelu $block 2>&1)
echo "$output"
[ "$(echo "$output" | grep -c " right: ")" -eq 6 ]

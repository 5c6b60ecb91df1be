// RUN: tile-opt %s --assign-layouts --lower-to-threads="hopper" --canonicalize --cse | FileCheck %s
// RUN: tile-opt %s --assign-layouts --lower-to-threads --canonicalize --cse | FileCheck %s --check-prefix=PORTABLE

// Small numbers become 0 ahead of their rounding to bf16. The limit, 0x1.ffp-31, is the smallest number that is rounded
// to 2^-30 (0x3080): the rounded numbers are compared with that, two at once. PTX for sm_80 has no such instruction.
// CHECK-LABEL: func.func @flushed(
// CHECK-NOT: arith.cmpf
// CHECK: %[[LEAST:.*]] = arith.constant 813707392 : i32
// CHECK-NOT: arith.cmpf
// CHECK: cvt.rn.bf16x2.f32 $0, $1, $2;
// CHECK: set.ge.bf16x2.bf16x2 $0, $1, $2;
// CHECK-SAME: %[[LEAST]]
// CHECK: mul.bf16x2 $0, $1, $2;
// CHECK-NOT: arith.cmpf
// CHECK: return
// PORTABLE-LABEL: func.func @flushed(
// PORTABLE: arith.cmpf olt
// PORTABLE-NOT: bf16x2.bf16x2
// PORTABLE: return
func.func @flushed(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xbf16> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %limit = arith.constant dense<0x307F8000> : tensor<1x1xf32>
  %limits = tile.broadcast %limit : tensor<1x1xf32> -> tensor<1x256xf32>
  %zero = arith.constant dense<0.0> : tensor<1x256xf32>
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x256xf32>
  %small = arith.cmpf olt, %x, %limits : tensor<1x256xf32>
  %kept = arith.select %small, %zero, %x : tensor<1x256xi1>, tensor<1x256xf32>
  %y = arith.truncf %kept : tensor<1x256xf32> to tensor<1x256xbf16>
  tile.store %y, %b[%c0] : tensor<1x256xbf16>, !tile.view<?xbf16>
  return
}

// Numbers just below 2^-30 itself are rounded to it, so it does matter which are compared.
// CHECK-LABEL: func.func @flushed_elsewhere(
// CHECK: arith.cmpf olt
// CHECK-NOT: set.ge
// CHECK: return
func.func @flushed_elsewhere(%a: !tile.view<?xf32> {tile.name = "a"},
                             %b: !tile.view<?xbf16> {tile.name = "b", tile.written}) attributes {tile.kernel} {
  %limit = arith.constant dense<0x30800000> : tensor<1x1xf32>
  %limits = tile.broadcast %limit : tensor<1x1xf32> -> tensor<1x256xf32>
  %zero = arith.constant dense<0.0> : tensor<1x256xf32>
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x256xf32>
  %small = arith.cmpf olt, %x, %limits : tensor<1x256xf32>
  %kept = arith.select %small, %zero, %x : tensor<1x256xi1>, tensor<1x256xf32>
  %y = arith.truncf %kept : tensor<1x256xf32> to tensor<1x256xbf16>
  tile.store %y, %b[%c0] : tensor<1x256xbf16>, !tile.view<?xbf16>
  return
}

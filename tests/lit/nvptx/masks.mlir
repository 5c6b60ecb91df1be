// RUN: tile-opt %s --merge-loads --plan-warps="hopper shared-limit=232448 roles=2" --assign-layouts --lower-to-threads="hopper shared-limit=232448" --canonicalize --cse | FileCheck %s

// A product whose columns past the end of %b and at each row's %other count for nothing: only warps that have such a
// column go over their numbers, all of them at the end of %b, and one row of them at an %other.
// CHECK-LABEL: func.func @masked(
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK: %[[ENDS:.*]] = arith.cmpi slt, %{{.*}}, %c256_i32 : i32
// CHECK: %[[ANY:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{.*}}, %[[ENDS]])
// CHECK-NEXT: scf.if %[[ANY]]
// CHECK-COUNT-128: arith.select
// CHECK: } else {
// CHECK-NEXT: scf.yield
// CHECK-NEXT: }
// CHECK: %[[ONE:.*]] = arith.cmpi ult, %{{.*}}, %c256_i32 : i32
// CHECK: %[[FIRST:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{.*}}, %[[ONE]])
// CHECK-NEXT: scf.if %[[FIRST]]
// CHECK-COUNT-64: arith.select
// CHECK-NEXT: scf.yield
// CHECK: } else {
// CHECK: %[[OTHER:.*]] = arith.cmpi ult, %{{.*}}, %c256_i32 : i32
// CHECK: %[[SECOND:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{.*}}, %[[OTHER]])
// CHECK-NEXT: scf.if %[[SECOND]]
// CHECK-COUNT-64: arith.select
// CHECK-NEXT: scf.yield
// CHECK-NOT: arith.cmpi ne
// CHECK: return
func.func @masked(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                  %other: !tile.view<?xi32> {tile.name = "other"},
                  %top: !tile.view<?xf32> {tile.name = "top", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 256>]} {
  %none = arith.constant dense<0xFF800000> : tensor<128x256xf32>
  %c128 = arith.constant 128 : index
  %c256 = arith.constant 256 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c256 : index
  %size = tile.dim %b, 0 : !tile.view<?x?xbf16>
  %product = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x256xf32>
  %position = tile.iota %j along 1 : tensor<1x256xi32>
  %end = tile.splat %size : index -> tensor<1x1xi32>
  %ends = tile.broadcast %end : tensor<1x1xi32> -> tensor<1x256xi32>
  %inside = arith.cmpi slt, %position, %ends : tensor<1x256xi32>
  %insides = tile.broadcast %inside : tensor<1x256xi1> -> tensor<128x256xi1>
  %positions = tile.broadcast %position : tensor<1x256xi32> -> tensor<128x256xi32>
  %one = tile.load %other[%i] : !tile.view<?xi32> -> tensor<128x1xi32>
  %ones = tile.broadcast %one : tensor<128x1xi32> -> tensor<128x256xi32>
  %differs = arith.cmpi ne, %positions, %ones : tensor<128x256xi32>
  %counts = arith.andi %insides, %differs : tensor<128x256xi1>
  %masked = arith.select %counts, %product, %none : tensor<128x256xi1>, tensor<128x256xf32>
  %tops = tile.reduce max, %masked along 1 : tensor<128x256xf32>
  tile.store %tops, %top[%i] : tensor<128x1xf32>, !tile.view<?xf32>
  return
}

// RUN: tile-opt %s --merge-loads --plan-warps="hopper shared-limit=232448 roles=3" --assign-layouts --lower-to-threads="hopper shared-limit=232448" --canonicalize --cse | FileCheck %s

// Rows are added to a product's result by their numbers, most of which are none. The numbers are loaded ahead of the
// product and looked at behind it, lest a turn waits for them. A thread with none of those rows goes past their loads,
// the masks of these, and the addition.
// CHECK-LABEL: func.func @add_rows(
// CHECK: nvvm.setmaxregister increase
// CHECK: ld.global.u32
// CHECK-NOT: arith.ori
// CHECK: nvvm.barrier id
// CHECK: wgmma.mma_async
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK-NOT: ld.global
// CHECK-COUNT-2: arith.ori
// CHECK: %[[PRESENT:.*]] = arith.ori
// CHECK: %[[BITS:.*]] = arith.andi %[[PRESENT]], %c{{[0-9]+}}_i32
// CHECK: %[[IS_MINE:.*]] = arith.cmpi sgt, %[[BITS]], %c0_i32
// CHECK: scf.if %[[IS_MINE]] -> (f32, f32
// CHECK: ld.global.v2.f32
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: scf.yield %[[SUM]]
// CHECK: } else {
// CHECK-NEXT: scf.yield
// CHECK: stmatrix.sync.aligned
func.func @add_rows(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                    %u: !tile.view<?x?xf32> {tile.name = "u"}, %slot: !tile.view<?xi32> {tile.name = "slot"},
                    %c: !tile.view<?x?xbf16> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 1, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 0
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %s = tile.load %slot[%i] : !tile.view<?xi32> -> tensor<128x1xi32>
  %r = tile.load_rows %u[%s, %j] {sparse_rows} : !tile.view<?x?xf32>, tensor<128x1xi32> -> tensor<128x128xf32>
  %t = arith.addf %x, %r : tensor<128x128xf32>
  %y = arith.truncf %t : tensor<128x128xf32> to tensor<128x128xbf16>
  tile.store %y, %c[%i, %j] : tensor<128x128xbf16>, !tile.view<?x?xbf16>
  return
}

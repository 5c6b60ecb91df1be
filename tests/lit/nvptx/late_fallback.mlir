// A plan that the kernel turns out not to fit is left while it is lowered: a remark says why, and all warps do the same.
// RUN: tile-opt %s --plan-warps="hopper shared-limit=232448" --assign-layouts --lower-to-threads="hopper shared-limit=232448" 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t
// What was asked for is not left.
// RUN: not tile-opt %s --plan-warps="hopper shared-limit=232448 roles=2" --assign-layouts --lower-to-threads="hopper shared-limit=232448" 2>&1 | FileCheck %s --check-prefix=ASKED

// REMARK: remark: 'transposed': all warps of a CTA do the same: it exchanges 66048 bytes between threads, more than
// ASKED: error: exchanges 66048 bytes between threads, more than
// CHECK-LABEL: func.func @transposed(
// CHECK-NOT: persistent
// CHECK-SAME: threads = 128 : i64
// CHECK: mma.sync
// CHECK-NOT: wgmma
func.func @transposed(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                      %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %y = tile.transpose %x : tensor<128x128xf32>
  tile.store %y, %c[%j, %i] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

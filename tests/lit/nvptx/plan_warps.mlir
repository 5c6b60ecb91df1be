// A plan for warps, as an attribute of the kernel, or why they are alike; what was asked for and is not done is a remark.
// RUN: tile-opt %s --plan-warps="hopper shared-limit=232448" 2>%t.automatic | FileCheck %s --check-prefixes=ALL,AUTOMATIC
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.automatic
// RUN: tile-opt %s --plan-warps="hopper shared-limit=232448 roles=2 stages=9 cluster-ctas=2" 2>%t.asked | FileCheck %s --check-prefix=ASKED
// RUN: FileCheck %s --check-prefix=ASKED-REMARK --input-file=%t.asked
// RUN: tile-opt %s --plan-warps="hopper shared-limit=65536" | FileCheck %s --check-prefix=SMALL
// RUN: tile-opt %s --plan-warps="hopper roles=1" 2>&1 | FileCheck %s --check-prefix=ALIKE
// RUN: tile-opt %s --plan-warps 2>&1 | FileCheck %s --check-prefix=PORTABLE
// RUN: tile-opt %s --plan-warps="hopper shared-limit=232448 swaps-operands" 2>/dev/null | tile-opt | FileCheck %s --check-prefix=SWAPPED
// What a plan says is what is printed, and is read again.
// RUN: tile-opt %s --plan-warps="hopper shared-limit=232448" 2>/dev/null | tile-opt | FileCheck %s --check-prefixes=ALL,AUTOMATIC

// ALL-LABEL: func.func @product(
// AUTOMATIC-SAME: tile_gpu.warps = #tile_gpu.warp_plan<pingPong, stages = 4, rows = 128, columns = 128, boxes = 4, replacesSums>
// ALL: tile.contract
// ALL: tile.store {{.*}}{tile_gpu.boxed}

// ASKED: tile_gpu.warps = #tile_gpu.warp_plan<cooperative, stages = 6, rows = 128, columns = 128, clusterCtas = 2, boxes = 2, replacesSums, isRanked, isRequired>
// ASKED-REMARK: remark: 'product': 6 stages instead of 9: shared memory has no room for more

// Boxes hold rows of a tile, not of its transpose; 56 rows may lie along the right operand.
// SWAPPED: tile_gpu.warps = #tile_gpu.warp_plan<pingPong, stages = 4, rows = 128, columns = 128, swapsOperands>
// SWAPPED-NOT: tile_gpu.boxed
// SWAPPED: func.func @odd(
// SWAPPED-SAME: rows = 56, columns = 128, swapsOperands

// SMALL: tile_gpu.warps = #tile_gpu.alike<"shared memory has no room for two stages">
// SMALL-NOT: tile_gpu.boxed

// ALIKE-NOT: remark
// ALIKE: tile_gpu.warps = #tile_gpu.alike<"asked for">
// PORTABLE-NOT: remark
// PORTABLE: tile_gpu.warps = #tile_gpu.alike<"code for sm_90a and aligned matrices alone have roles">
func.func @product(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                   %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  tile.store %x, %c[%i, %j] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

// wgmma multiplies 64 rows at a time.
// ALL-LABEL: func.func @odd(
// AUTOMATIC-SAME: tile_gpu.warps = #tile_gpu.alike<"warpgroups cannot share so large or so odd a tile">
// REMARK: remark: 'odd': all warps of a CTA do the same: warpgroups cannot share so large or so odd a tile
// ASKED-REMARK: remark: 'odd': all warps of a CTA do the same: warpgroups cannot share so large or so odd a tile
// ASKED-REMARK: remark: 'odd': CTAs form no clusters of 2, which only those have whose warps differ
func.func @odd(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
               %c: !tile.view<?x?xf32> {tile.name = "c", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 1, %b[%c0] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<56x128xf32>
  tile.store %x, %c[%c0, %c0] : tensor<56x128xf32>, !tile.view<?x?xf32>
  return
}

// ALL-LABEL: func.func @two(
// AUTOMATIC-SAME: tile_gpu.warps = #tile_gpu.alike<"there is not exactly one product of views, in no loop">
// ALL-NOT: tile_gpu.boxed
func.func @two(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 1, %a[%c0] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %y = tile.contract %a[%c0] contracting 0, %a[%c0] contracting 0
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %z = arith.addf %x, %y : tensor<128x128xf32>
  tile.store %z, %c[%c0, %c0] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

// ptxas has registers for sums that the first step replaces where a second reduction is in a branch behind the
// product, but not where both are beside it.
// ALL-LABEL: func.func @branch(
// AUTOMATIC-SAME: replacesSums
func.func @branch(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                  %s: !tile.view<?xf32> {tile.name = "s", tile.written},
                  %t: !tile.view<?xf32> {tile.name = "t", tile.written}, %often: index {tile.name = "often"})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %sum = tile.reduce sum, %x along 1 : tensor<128x128xf32>
  tile.store %sum, %s[%i] : tensor<128x1xf32>, !tile.view<?xf32>
  %is = arith.cmpi ne, %often, %c0 : index
  scf.if %is {
    %top = tile.reduce max, %x along 1 : tensor<128x128xf32>
    tile.store %top, %t[%i] : tensor<128x1xf32>, !tile.view<?xf32>
  }
  return
}

// ALL-LABEL: func.func @beside(
// AUTOMATIC-NOT: replacesSums
// AUTOMATIC: tile.contract
func.func @beside(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                  %s: !tile.view<?xf32> {tile.name = "s", tile.written},
                  %t: !tile.view<?xf32> {tile.name = "t", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %y = arith.mulf %x, %x : tensor<128x128xf32>
  %sum = tile.reduce sum, %y along 1 : tensor<128x128xf32>
  tile.store %sum, %s[%i] : tensor<128x1xf32>, !tile.view<?xf32>
  %top = tile.reduce max, %x along 1 : tensor<128x128xf32>
  tile.store %top, %t[%i] : tensor<128x1xf32>, !tile.view<?xf32>
  return
}

// Notes of who holds what on IR that is not lowered.
// RUN: tile-opt %s --lower-to-threads="explain" | FileCheck %s --check-prefixes=ALL,ALIKE
// RUN: tile-opt %s --plan-warps="hopper shared-limit=232448" --lower-to-threads="explain" | FileCheck %s --check-prefixes=ALL,ROLES

// ALL-LABEL: func.func @product(
// ALL-SAME: threads = 128 : i64
// ALIKE: tile.contract {{.*}}layout = "rows b2*1 + b3*2 + b4*4 + b6*64 + {0, 8, 16, 24, 32, 40, 48, 56}; columns b0*2 + b1*4 + b5*64 + {0, 1, 8, ..., 49, 56, 57}"
// ROLES: tile.contract {{.*}}layout = "rows b2*1 + b3*2 + b4*4 + b5*16 + b6*32 + {0, 8, 64, 72}; columns b0*2 + b1*4 + {0, 1, 8, ..., 113, 120, 121}"
// ALL: arith.mulf {{.*}}layout = "rows b2*1
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
  %y = arith.mulf %x, %x : tensor<128x128xf32>
  tile.store %y, %c[%i, %j] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

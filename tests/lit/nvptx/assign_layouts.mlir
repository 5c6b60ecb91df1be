// Who holds what of each tile, as attributes: of the kernel's threads, of results.
// RUN: tile-opt %s --assign-layouts | FileCheck %s --check-prefixes=ALL,ALIKE
// RUN: tile-opt %s --plan-warps="hopper shared-limit=232448" --assign-layouts 2>/dev/null | FileCheck %s --check-prefixes=ALL,ROLES
// What is printed is read again.
// RUN: tile-opt %s --assign-layouts | tile-opt | FileCheck %s --check-prefixes=ALL,ALIKE
// RUN: tile-opt %s --assign-layouts=warps=8 | FileCheck %s --check-prefix=EIGHT

// A layout is named ahead of the module.
// ALIKE-DAG: [[PRODUCT:#layout[0-9]*]] = #tile_gpu.layout<rows = <128, class = 1, bits = [2 : 1, 3 : 2, 4 : 4, 6 : 64], offsets = [0] x 8 by 8, run = 1>, columns = <128, class = 2, bits = [0 : 2, 1 : 4, 5 : 64], offsets = [0, 1] x 8 by 8, run = 2>>
// ROLES-DAG: [[PRODUCT:#layout[0-9]*]] = #tile_gpu.layout<rows = <128, class = 1, bits = [2 : 1, 3 : 2, 4 : 4, 5 : 16, 6 : 32], offsets = [0, 8] x 2 by 64, run = 1>, columns = <128, class = 2, bits = [0 : 2, 1 : 4], offsets = [0, 1] x 16 by 8, run = 2>>

// ALL-LABEL: func.func @product(
// ALL-SAME: tile_gpu.threads = 128 : i64
// EIGHT: tile_gpu.threads = 256 : i64
// ALL: tile.contract {{.*}}{tile_gpu.layout = [[PRODUCT]]}
// ALL: arith.mulf {{.*}}{tile_gpu.layout = [[PRODUCT]]}
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

// A loop's results have a layout each; what is no tile has none.
// ALL-LABEL: func.func @loop(
// ALL: arith.constant 0 : index
// ALL: } {tile_gpu.layout = [#layout{{[0-9]*}}, #layout{{[0-9]*}}]}
func.func @loop(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x128xf32>
  %r:3 = scf.for %i = %c0 to %c4 step %c1 iter_args(%u = %x, %n = %c0, %v = %x)
      -> (tensor<1x128xf32>, index, tensor<1x128xf32>) {
    %w = arith.addf %u, %v : tensor<1x128xf32>
    scf.yield %w, %i, %u : tensor<1x128xf32>, index, tensor<1x128xf32>
  }
  tile.store %r#0, %b[%r#1] : tensor<1x128xf32>, !tile.view<?xf32>
  return
}

// Not a kernel.
// ALL-LABEL: func.func @other(
// ALL-NOT: tile_gpu
func.func @other(%a: !tile.view<?xf32>) -> tensor<1x128xf32> {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x128xf32>
  return %x : tensor<1x128xf32>
}

// A product of one row is left in the accumulators of sixteen; what uses it gets it in the layout of a row.
// RUN: tile-opt %s --assign-layouts | FileCheck %s
// RUN: tile-opt %s --assign-layouts --assign-layouts | FileCheck %s
// RUN: tile-opt %s --assign-layouts | tile-opt --lower-to-threads --canonicalize --cse | FileCheck %s --check-prefix=LOWERED

// CHECK-DAG: [[OWN:#layout[0-9]*]] = #tile_gpu.layout<rows = <1, class = {{[0-9]*}}, bits = [2 : 1, 3 : 2, 4 : 4], offsets = [0] x 2 by 8, run = 1>, columns = [[COLUMNS:<64.*]]>
// CHECK-DAG: [[ROW:#layout[0-9]*]] = #tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>, columns = [[COLUMNS]]>
// CHECK-LABEL: func.func @row(
// CHECK: %[[X:.*]] = tile.contract {{.*}}{tile_gpu.layout = [[OWN]]}
// CHECK-NEXT: %[[Y:.*]] = tile_gpu.convert_layout %[[X]] {tile_gpu.layout = [[ROW]]} : tensor<1x64xf32>
// CHECK-NOT: convert_layout
// CHECK: tile.store %[[Y]]
// LOWERED-LABEL: func.func @row(
// LOWERED: mma.sync
// LOWERED: nvvm.barrier0
// LOWERED: ld.shared.f32
// LOWERED: st.global
func.func @row(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
               %c: !tile.view<?x?xf32> {tile.name = "c", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 1, %b[%c0] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<1x64xf32>
  tile.store %x, %c[%c0, %c0] : tensor<1x64xf32>, !tile.view<?x?xf32>
  return
}

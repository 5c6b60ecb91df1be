// RUN: tile-opt %s --assign-layouts | FileCheck %s

// Tiles that do not meet have different classes, even where their maps are equal. Axes of one element have class 0,
// which is not printed. A row's sum keeps the class of the rows.

// CHECK-DAG: [[FIRST:#layout[0-9]*]] = #tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>, columns = <64, class = 1, [[MAP:bits = \[0 : 4.* run = 4]]>>
// CHECK-DAG: [[SECOND:#layout[0-9]*]] = #tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>, columns = <64, class = 2, [[MAP]]>>
// CHECK-DAG: [[BLOCK:#layout[0-9]*]] = #tile_gpu.layout<rows = <4, class = 3, [[ROWS:bits.*]]>, columns = <32, class = 4, {{.*}}>>
// CHECK-DAG: [[SUMS:#layout[0-9]*]] = #tile_gpu.layout<rows = <4, class = 3, [[ROWS]]>, columns = <1, bits = [], offsets = [0], run = 1>>
// CHECK-LABEL: func.func @classes(
// CHECK: tile.load {{.*}}{tile_gpu.layout = [[FIRST]]}
// CHECK: tile.load {{.*}}{tile_gpu.layout = [[SECOND]]}
// CHECK: tile.load {{.*}}{tile_gpu.layout = [[BLOCK]]}
// CHECK: tile.reduce {{.*}}{tile_gpu.layout = [[SUMS]]}
func.func @classes(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?x?xf32> {tile.name = "b"},
                   %c: !tile.view<?xf32> {tile.name = "c", tile.written},
                   %d: !tile.view<?x?xf32> {tile.name = "d", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x64xf32>
  %y = tile.load %a[%c64] : !tile.view<?xf32> -> tensor<1x64xf32>
  %z = tile.load %b[%c0, %c0] : !tile.view<?x?xf32> -> tensor<4x32xf32>
  %s = tile.reduce sum, %z along 1 : tensor<4x32xf32>
  tile.store %x, %c[%c0] : tensor<1x64xf32>, !tile.view<?xf32>
  tile.store %y, %c[%c64] : tensor<1x64xf32>, !tile.view<?xf32>
  tile.store %s, %d[%c0, %c0] : tensor<4x1xf32>, !tile.view<?x?xf32>
  return
}

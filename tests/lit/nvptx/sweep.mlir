// RUN: tile-opt %s --assign-layouts --lower-to-threads | FileCheck %s

// The blocks of a sweep's iterations have no column in common: nobody waits between them.
// CHECK-LABEL: func.func @in_place
// CHECK: scf.for
// CHECK-NOT: nvvm.barrier0
// CHECK: return
func.func @in_place(%x: !tile.view<?xf32> {tile.name = "x", tile.written}, %n: index {tile.name = "n"})
    attributes {tile.grid = [], tile.kernel} {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  scf.for %c = %c0 to %n step %c128 {
    %a = tile.load %x[%c] : !tile.view<?xf32> -> tensor<1x128xf32>
    %b = arith.addf %a, %a : tensor<1x128xf32>
    tile.store %b, %x[%c] : tensor<1x128xf32>, !tile.view<?xf32>
  } {tile.sweep}
  return
}

// Near miss: what is stored has columns in common with what the iteration before loads, whatever the attribute says.
// CHECK-LABEL: func.func @shifted
// CHECK: scf.for
// CHECK: nvvm.barrier0
// CHECK: return
func.func @shifted(%x: !tile.view<?xf32> {tile.name = "x", tile.written}, %n: index {tile.name = "n"})
    attributes {tile.grid = [], tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  scf.for %c = %c0 to %n step %c128 {
    %next = arith.addi %c, %c1 : index
    %a = tile.load %x[%next] : !tile.view<?xf32> -> tensor<1x128xf32>
    tile.store %a, %x[%c] : tensor<1x128xf32>, !tile.view<?xf32>
  } {tile.sweep}
  return
}

// RUN: tile-opt %s --assign-layouts --lower-to-threads | FileCheck %s

// What is loaded only to be stored on chip is copied there; who looks at it waits first.
// CHECK-LABEL: func.func @copied
func.func @copied(%x: !tile.view<?xbf16> {tile.name = "x"}, %y: !tile.view<?xbf16> {tile.name = "y", tile.written}, %n: index {tile.name = "n"})
    attributes {tile.grid = [], tile.kernel} {
  %c0 = arith.constant 0 : index
  %c2048 = arith.constant 2048 : index
  %kept = tile.on_chip 8192 : !tile.view<?xbf16>
  // CHECK: scf.for
  // CHECK-NOT: ld.global
  // CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg
  // CHECK-NOT: st.shared
  scf.for %c = %c0 to %n step %c2048 {
    %a = tile.load %x[%c] {interior} : !tile.view<?xbf16> -> tensor<1x2048xbf16>
    tile.store %a, %kept[%c] {interior} : tensor<1x2048xbf16>, !tile.view<?xbf16>
  } {tile.sweep}
  // CHECK: nvvm.cp.async.commit.group
  // CHECK-NEXT: nvvm.cp.async.wait.group 0
  // CHECK-NEXT: nvvm.barrier0
  // CHECK: scf.for
  // CHECK: ld.shared.v4.u32
  scf.for %c = %c0 to %n step %c2048 {
    %a = tile.load %kept[%c] {interior} : !tile.view<?xbf16> -> tensor<1x2048xbf16>
    tile.store %a, %y[%c] {interior} : tensor<1x2048xbf16>, !tile.view<?xbf16>
  } {tile.sweep}
  return
}

// Near miss: what is also used otherwise is loaded.
// CHECK-LABEL: func.func @used
// CHECK-NOT: cp.async
// CHECK: return
func.func @used(%x: !tile.view<?xbf16> {tile.name = "x"}, %y: !tile.view<?xbf16> {tile.name = "y", tile.written})
    attributes {tile.grid = [], tile.kernel} {
  %c0 = arith.constant 0 : index
  %kept = tile.on_chip 2048 : !tile.view<?xbf16>
  %a = tile.load %x[%c0] {interior} : !tile.view<?xbf16> -> tensor<1x2048xbf16>
  tile.store %a, %kept[%c0] {interior} : tensor<1x2048xbf16>, !tile.view<?xbf16>
  tile.store %a, %y[%c0] {interior} : tensor<1x2048xbf16>, !tile.view<?xbf16>
  return
}

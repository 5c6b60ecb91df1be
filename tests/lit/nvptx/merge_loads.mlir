// RUN: tile-opt %s --merge-loads | FileCheck %s

// CHECK-LABEL: func.func @merged(
// CHECK: tile.load %arg0
// CHECK-NOT: tile.load
func.func @merged(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written},
                  %c: !tile.view<?xf32> {tile.name = "c", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x128xf32>
  tile.store %x, %b[%c0] : tensor<1x128xf32>, !tile.view<?xf32>
  %y = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x128xf32>
  tile.store %y, %c[%c0] : tensor<1x128xf32>, !tile.view<?xf32>
  return
}

// The kernel writes what the second one reads; and other elements.
// CHECK-LABEL: func.func @kept(
// CHECK-COUNT-4: tile.load
func.func @kept(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %x = tile.load %b[%c0] : !tile.view<?xf32> -> tensor<1x128xf32>
  %u = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x128xf32>
  %v = tile.load %a[%c128] : !tile.view<?xf32> -> tensor<1x128xf32>
  %s = arith.addf %u, %v : tensor<1x128xf32>
  tile.store %s, %b[%c0] : tensor<1x128xf32>, !tile.view<?xf32>
  %y = tile.load %b[%c0] : !tile.view<?xf32> -> tensor<1x128xf32>
  %z = arith.mulf %x, %y : tensor<1x128xf32>
  tile.store %z, %b[%c128] : tensor<1x128xf32>, !tile.view<?xf32>
  return
}

// RUN: tile-opt %s --assign-layouts --lower-to-threads="starts-early" | FileCheck %s
// RUN: tile-opt %s --assign-layouts --lower-to-threads | FileCheck %s --check-prefix=LATER
// RUN: tile-opt %s --assign-layouts --lower-to-threads="starts-early next-is-product" \
// RUN:   | FileCheck %s --check-prefix=PRODUCT
// RUN: tile-opt %s --assign-layouts --lower-to-threads="starts-early runs-beside" \
// RUN:   | FileCheck %s --check-prefix=BESIDE

// Nothing is read before the launch before this one is over; then the next one's CTAs may take their places.
// CHECK-LABEL: func.func @copy(
// CHECK-SAME: starts_early
// CHECK-NEXT: griddepcontrol.wait;
// CHECK-SAME: ~{memory}
// CHECK-NEXT: griddepcontrol.launch_dependents;
// CHECK-SAME: ~{memory}
// CHECK: ld.global
// A product's CTAs take their places when this one's work is done.
// PRODUCT-LABEL: func.func @copy(
// PRODUCT-NEXT: griddepcontrol.wait;
// PRODUCT-NOT: griddepcontrol
// PRODUCT: st.global
// PRODUCT: griddepcontrol.launch_dependents;
// PRODUCT-NEXT: return
// Beside the launch before it nothing waits but the first CTAs at their end.
// BESIDE-LABEL: func.func @copy(
// BESIDE-SAME: starts_early
// BESIDE-NEXT: griddepcontrol.launch_dependents;
// BESIDE-NOT: griddepcontrol
// BESIDE: st.global
// BESIDE: mov.u32 cta, %ctaid.x;
// BESIDE: @waits griddepcontrol.wait;
// BESIDE-NEXT: return
// LATER-LABEL: func.func @copy(
// LATER-NOT: starts_early
// LATER-NOT: griddepcontrol
func.func @copy(%x: !tile.view<?xf32> {tile.name = "x"}, %y: !tile.view<?xf32> {tile.name = "y", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %t = tile.load %x[%c0] : !tile.view<?xf32> -> tensor<1x64xf32>
  tile.store %t, %y[%c0] : tensor<1x64xf32>, !tile.view<?xf32>
  return
}

// A product's CTAs begin on an empty GPU, in their order.
// CHECK-LABEL: func.func @product(
// CHECK-NOT: starts_early
// CHECK-NOT: griddepcontrol
// CHECK: mma.sync
func.func @product(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                   %c: !tile.view<?x?xf32> {tile.name = "c", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 1, %b[%c0] contracting 0
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<32x32xf32>
  tile.store %x, %c[%c0, %c0] : tensor<32x32xf32>, !tile.view<?x?xf32>
  return
}

// RUN: tile-opt %s --gather-to-select --cse | FileCheck %s
// Of all that the pass makes, nothing is a gather or a scatter.
// RUN: tile-opt %s --gather-to-select | FileCheck %s --check-prefix=GONE
// GONE-NOT: tile.gather
// GONE-NOT: tile.scatter

// gather(x, i) = Σ select(c = i, x, 0)
// CHECK-LABEL: @gather_of_anything
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xf32>, %[[I:.*]]: tensor<8x1xi32>)
func.func @gather_of_anything(%x: tensor<8x64xf32>, %i: tensor<8x1xi32>) -> tensor<8x1xf32> {
  // CHECK: %[[ZERO:.*]] = tile.broadcast %{{.*}} : tensor<1x1xf32> -> tensor<8x64xf32>
  // CHECK: %[[C:.*]] = tile.iota %{{.*}} along 1 : tensor<1x64xi32>
  // CHECK: %[[CS:.*]] = tile.broadcast %[[C]] : tensor<1x64xi32> -> tensor<8x64xi32>
  // CHECK: %[[IS:.*]] = tile.broadcast %[[I]] : tensor<8x1xi32> -> tensor<8x64xi32>
  // CHECK: %[[AT:.*]] = arith.cmpi eq, %[[CS]], %[[IS]] : tensor<8x64xi32>
  // CHECK: %[[PICKED:.*]] = arith.select %[[AT]], %[[X]], %[[ZERO]] : tensor<8x64xi1>, tensor<8x64xf32>
  // CHECK: %[[SUM:.*]] = tile.reduce sum, %[[PICKED]] along 1 : tensor<8x64xf32>
  // CHECK: return %[[SUM]]
  %0 = tile.gather %x[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  return %0 : tensor<8x1xf32>
}

// Elements that cannot be summed make a detour.
// CHECK-LABEL: @gather_of_bf16
func.func @gather_of_bf16(%x: tensor<8x64xbf16>, %i: tensor<8x1xi32>) -> tensor<8x1xbf16> {
  // CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : tensor<8x64xbf16> to tensor<8x64xf32>
  // CHECK: arith.select %{{.*}}, %[[WIDE]], %{{.*}}
  // CHECK: %[[SUM:.*]] = tile.reduce sum
  // CHECK: arith.truncf %[[SUM]] : tensor<8x1xf32> to tensor<8x1xbf16>
  %0 = tile.gather %x[%i] : tensor<8x64xbf16>, tensor<8x1xi32>
  return %0 : tensor<8x1xbf16>
}

// CHECK-LABEL: @gather_of_truth
func.func @gather_of_truth(%x: tensor<8x64xi1>, %i: tensor<8x1xi32>) -> tensor<8x1xi1> {
  // CHECK: arith.extui %{{.*}} : tensor<8x64xi1> to tensor<8x64xi32>
  // CHECK: arith.trunci %{{.*}} : tensor<8x1xi32> to tensor<8x1xi1>
  %0 = tile.gather %x[%i] : tensor<8x64xi1>, tensor<8x1xi32>
  return %0 : tensor<8x1xi1>
}

// scatter(v, i) = select(c = i, v, 0)
// CHECK-LABEL: @scatter
// CHECK-SAME: (%[[V:.*]]: tensor<8x1xf32>, %[[I:.*]]: tensor<8x1xi32>, %[[N:[^ ]*]]: index
func.func @scatter(%v: tensor<8x1xf32>, %i: tensor<8x1xi32>, %n: index, %y: !tile.view<?x?xf32>) {
  // CHECK: %[[ZERO:.*]] = tile.broadcast %{{.*}} size %[[N]] : tensor<1x1xf32> -> tensor<8x?xf32>
  // CHECK: %[[VS:.*]] = tile.broadcast %[[V]] size %[[N]] : tensor<8x1xf32> -> tensor<8x?xf32>
  // CHECK: tile.iota %{{.*}} along 1 size %[[N]] : tensor<1x?xi32>
  // CHECK: %[[AT:.*]] = arith.cmpi eq
  // CHECK: %[[HOT:.*]] = arith.select %[[AT]], %[[VS]], %[[ZERO]] : tensor<8x?xi1>, tensor<8x?xf32>
  // CHECK: tile.store %[[HOT]]
  %c0 = arith.constant 0 : index
  %0 = tile.scatter %v at %i size %n : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x?xf32>
  tile.store %0, %y[%c0, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// Σ scatter(v, i) = v where i is inside the row, else 0: no row is made.
// CHECK-LABEL: @sum_of_scatter
// CHECK-SAME: (%[[V:.*]]: tensor<8x1xf32>, %[[I:.*]]: tensor<8x1xi32>, %[[N:[^ ]*]]: index
func.func @sum_of_scatter(%v: tensor<8x1xf32>, %i: tensor<8x1xi32>, %n: index) -> tensor<8x1xf32> {
  // CHECK-NOT: tensor<8x?xf32>
  // CHECK: %[[WIDTH:.*]] = tile.splat %[[N]]
  // CHECK: %[[WIDTHS:.*]] = tile.broadcast %[[WIDTH]]
  // CHECK: %[[IN:.*]] = arith.cmpi ult, %[[I]], %[[WIDTHS]]
  // CHECK: %[[SUM:.*]] = arith.select %[[IN]], %[[V]], %{{.*}} : tensor<8x1xi1>, tensor<8x1xf32>
  // CHECK: return %[[SUM]]
  %0 = tile.scatter %v at %i size %n : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x?xf32>
  %1 = tile.reduce sum, %0 along 1 : tensor<8x?xf32>
  return %1 : tensor<8x1xf32>
}

// Near miss: the sum of each column of a scatter.
// CHECK-LABEL: @column_sum_of_scatter
func.func @column_sum_of_scatter(%v: tensor<8x1xf32>, %i: tensor<8x1xi32>) -> tensor<1x64xf32> {
  // CHECK: %[[HOT:.*]] = arith.select %{{.*}} : tensor<8x64xi1>, tensor<8x64xf32>
  // CHECK: tile.reduce sum, %[[HOT]] along 0
  %0 = tile.scatter %v at %i : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x64xf32>
  %1 = tile.reduce sum, %0 along 0 : tensor<8x64xf32>
  return %1 : tensor<1x64xf32>
}

// gather(log_softmax(x), i) = (gather(x, i) - m) - log Σ exp(x - m), and 0 where i is outside.
// CHECK-LABEL: @gather_of_log_softmax
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xf32>, %[[I:.*]]: tensor<8x1xi32>)
func.func @gather_of_log_softmax(%x: tensor<8x64xf32>, %i: tensor<8x1xi32>) -> tensor<8x1xf32> {
  // CHECK-NOT: log_softmax
  // CHECK: %[[M:.*]] = tile.reduce max, %[[X]] along 1
  // CHECK: %[[S:.*]] = tile.reduce sum
  // CHECK: %[[L:.*]] = math.log %[[S]] : tensor<8x1xf32>
  // CHECK: arith.select %{{.*}}, %[[X]], %{{.*}} : tensor<8x64xi1>, tensor<8x64xf32>
  // CHECK: %[[XI:.*]] = tile.reduce sum
  // CHECK: %[[D:.*]] = arith.subf %[[XI]], %[[M]] : tensor<8x1xf32>
  // CHECK: %[[P:.*]] = arith.subf %[[D]], %[[L]] : tensor<8x1xf32>
  // CHECK: %[[IN:.*]] = arith.cmpi ult, %[[I]], %{{.*}} : tensor<8x1xi32>
  // CHECK: %[[Y:.*]] = arith.select %[[IN]], %[[P]], %{{.*}} : tensor<8x1xi1>, tensor<8x1xf32>
  // CHECK: return %[[Y]]
  %0 = tile.log_softmax %x : tensor<8x64xf32>
  %1 = tile.gather %0[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  return %1 : tensor<8x1xf32>
}

// The same written out by hand, through an exponential and a product: only x is picked from.
// CHECK-LABEL: @gather_of_softmax_by_hand
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xf32>, %[[M:.*]]: tensor<8x1xf32>, %[[R:.*]]: tensor<8x1xf32>
func.func @gather_of_softmax_by_hand(%x: tensor<8x64xf32>, %m: tensor<8x1xf32>, %r: tensor<8x1xf32>,
                                     %i: tensor<8x1xi32>) -> tensor<8x1xf32> {
  // CHECK: arith.select %{{.*}}, %[[X]], %{{.*}} : tensor<8x64xi1>, tensor<8x64xf32>
  // CHECK: %[[XI:.*]] = tile.reduce sum
  // CHECK: %[[D:.*]] = arith.subf %[[XI]], %[[M]] : tensor<8x1xf32>
  // CHECK: %[[E:.*]] = math.exp %[[D]] : tensor<8x1xf32>
  // CHECK: %[[P:.*]] = arith.mulf %[[E]], %[[R]] : tensor<8x1xf32>
  // CHECK: arith.select %{{.*}}, %[[P]], %{{.*}} : tensor<8x1xi1>
  %ms = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
  %rs = tile.broadcast %r : tensor<8x1xf32> -> tensor<8x64xf32>
  %d = arith.subf %x, %ms : tensor<8x64xf32>
  %e = math.exp %d : tensor<8x64xf32>
  %p = arith.mulf %e, %rs : tensor<8x64xf32>
  %0 = tile.gather %p[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  return %0 : tensor<8x1xf32>
}

// Near miss: nothing of the row but its elements and constants goes in, so the element is picked from the result.
// CHECK-LABEL: @gather_of_softcap
func.func @gather_of_softcap(%x: tensor<8x64xf32>, %i: tensor<8x1xi32>) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  // CHECK: %[[Z:.*]] = arith.mulf %{{.*}} : tensor<8x64xf32>
  // CHECK: arith.select %{{.*}}, %[[Z]], %{{.*}} : tensor<8x64xi1>, tensor<8x64xf32>
  %c = arith.constant dense<30.0> : tensor<1x1xf32>
  %cs = tile.broadcast %c : tensor<1x1xf32> -> tensor<8x64xf32>
  %t = math.tanh %x : tensor<8x64xf32>
  %z = arith.mulf %t, %cs : tensor<8x64xf32>
  %0 = tile.gather %z[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  %1 = tile.reduce sum, %z along 1 : tensor<8x64xf32>
  return %0, %1 : tensor<8x1xf32>, tensor<8x1xf32>
}

// gather(load v[r, 0], i) = load_elements v[r, i]: the tile is as wide as the view, so no guard is needed.
// CHECK-LABEL: @gather_of_load
// CHECK-SAME: (%[[V:.*]]: !tile.view<?x?xbf16>, %[[R:[^ ]*]]: index, %[[I:.*]]: tensor<8x1xi32>)
func.func @gather_of_load(%v: !tile.view<?x?xbf16>, %r: index, %i: tensor<8x1xi32>) -> tensor<8x1xf32> {
  // CHECK-NOT: tile.load %
  // CHECK: %[[E:.*]] = tile.load_elements %[[V]][%[[R]], %[[I]]] : !tile.view<?x?xbf16>, tensor<8x1xi32> -> tensor<8x1xbf16>
  // CHECK-NEXT: %[[F:.*]] = arith.extf %[[E]] : tensor<8x1xbf16> to tensor<8x1xf32>
  // CHECK-NEXT: return %[[F]]
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xbf16>
  %0 = tile.load %v[%r, %c0] size %n : !tile.view<?x?xbf16> -> tensor<8x?xbf16>
  %1 = arith.extf %0 : tensor<8x?xbf16> to tensor<8x?xf32>
  %2 = tile.gather %1[%i] : tensor<8x?xf32>, tensor<8x1xi32>
  return %2 : tensor<8x1xf32>
}

// A narrower tile that begins elsewhere: the index moves along, and what lies outside the tile is 0.
// CHECK-LABEL: @gather_of_block
// CHECK-SAME: (%[[V:.*]]: !tile.view<?x?xf32>, %[[R:[^ ]*]]: index, %[[J:[^ ]*]]: index, %[[I:.*]]: tensor<8x1xi32>)
func.func @gather_of_block(%v: !tile.view<?x?xf32>, %r: index, %j: index, %i: tensor<8x1xi32>) -> tensor<8x1xf32> {
  // CHECK: %[[J1:.*]] = tile.splat %[[J]]
  // CHECK: %[[JS:.*]] = tile.broadcast %[[J1]]
  // CHECK: %[[AT:.*]] = arith.addi %[[I]], %[[JS]] : tensor<8x1xi32>
  // CHECK: %[[E:.*]] = tile.load_elements %[[V]][%[[R]], %[[AT]]]
  // CHECK: %[[IN:.*]] = arith.cmpi ult, %[[I]], %{{.*}} : tensor<8x1xi32>
  // CHECK: arith.select %[[IN]], %[[E]], %{{.*}}
  %0 = tile.load %v[%r, %j] : !tile.view<?x?xf32> -> tensor<8x64xf32>
  %1 = tile.gather %0[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  return %1 : tensor<8x1xf32>
}

// Two gathers of one row are still no reason to read it.
// CHECK-LABEL: @two_gathers
func.func @two_gathers(%v: !tile.view<?x?xf32>, %r: index, %i: tensor<8x1xi32>, %j: tensor<8x1xi32>)
    -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  // CHECK-NOT: tile.load %
  // CHECK: tile.load_elements
  // CHECK: tile.load_elements
  // CHECK-NOT: tile.reduce
  // CHECK: return
  %c0 = arith.constant 0 : index
  %0 = tile.load %v[%r, %c0] : !tile.view<?x?xf32> -> tensor<8x64xf32>
  %1 = tile.gather %0[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  %2 = tile.gather %0[%j] : tensor<8x64xf32>, tensor<8x1xi32>
  return %1, %2 : tensor<8x1xf32>, tensor<8x1xf32>
}

// Near miss: the row is read anyway.
// CHECK-LABEL: @gather_of_load_with_another_use
func.func @gather_of_load_with_another_use(%v: !tile.view<?x?xf32>, %r: index, %i: tensor<8x1xi32>)
    -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  // CHECK-NOT: tile.load_elements
  // CHECK: %[[X:.*]] = tile.load %
  // CHECK: arith.select %{{.*}}, %[[X]], %{{.*}}
  %c0 = arith.constant 0 : index
  %0 = tile.load %v[%r, %c0] : !tile.view<?x?xf32> -> tensor<8x64xf32>
  %1 = tile.gather %0[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  %2 = tile.reduce max, %0 along 1 : tensor<8x64xf32>
  return %1, %2 : tensor<8x1xf32>, tensor<8x1xf32>
}

// A long row is read by many; the element is still cheaper by itself. A row that is numbered has that number.
// CHECK-LABEL: @gather_of_long_row
// CHECK-SAME: (%[[V:.*]]: !tile.view<?x?xbf16>, %[[R:[^ ]*]]: tensor<1x1xi32>, %[[I:.*]]: tensor<1x1xi32>)
func.func @gather_of_long_row(%v: !tile.view<?x?xbf16>, %r: tensor<1x1xi32>, %i: tensor<1x1xi32>)
    -> (tensor<1x1xf32>, tensor<1x1xf32>) {
  // CHECK: %[[ROW:.*]] = tile.extract %[[R]] : tensor<1x1xi32>
  // CHECK: %[[E:.*]] = tile.load_elements %[[V]][%[[ROW]], %[[I]]] : !tile.view<?x?xbf16>, tensor<1x1xi32> -> tensor<1x1xbf16>
  // CHECK: %[[F:.*]] = arith.extf %[[E]]
  // CHECK: %[[M:.*]] = tile.reduce max
  // CHECK: return %[[F]], %[[M]]
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xbf16>
  %0 = tile.load_rows %v[%r, %c0] size %n : !tile.view<?x?xbf16>, tensor<1x1xi32> -> tensor<1x?xbf16>
  %1 = arith.extf %0 : tensor<1x?xbf16> to tensor<1x?xf32>
  %2 = tile.gather %1[%i] : tensor<1x?xf32>, tensor<1x1xi32>
  %3 = tile.reduce max, %1 along 1 : tensor<1x?xf32>
  return %2, %3 : tensor<1x1xf32>, tensor<1x1xf32>
}

// Near miss: by the time of the gather, memory has changed.
// CHECK-LABEL: @gather_of_load_after_a_store
func.func @gather_of_load_after_a_store(%v: !tile.view<?x?xf32>, %r: index, %i: tensor<8x1xi32>, %x: tensor<8x64xf32>)
    -> tensor<8x1xf32> {
  // CHECK-NOT: tile.load_elements
  // CHECK: tile.store
  // CHECK: tile.reduce sum
  %c0 = arith.constant 0 : index
  %0 = tile.load %v[%r, %c0] : !tile.view<?x?xf32> -> tensor<8x64xf32>
  tile.store %x, %v[%r, %c0] : tensor<8x64xf32>, !tile.view<?x?xf32>
  %1 = tile.gather %0[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  return %1 : tensor<8x1xf32>
}

// Near miss: another view of the same type may be the same tensor, overwritten in place.
// CHECK-LABEL: @gather_of_load_after_a_store_in_place
func.func @gather_of_load_after_a_store_in_place(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xf32>, %r: index,
                                                 %i: tensor<8x1xi32>, %x: tensor<8x64xf32>) -> tensor<8x1xf32> {
  // CHECK-NOT: tile.load_elements
  // CHECK: tile.reduce sum
  %c0 = arith.constant 0 : index
  %0 = tile.load %v[%r, %c0] : !tile.view<?x?xf32> -> tensor<8x64xf32>
  tile.store %x, %w[%r, %c0] : tensor<8x64xf32>, !tile.view<?x?xf32>
  %1 = tile.gather %0[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  return %1 : tensor<8x1xf32>
}

// A store to a view of another type changes nothing.
// CHECK-LABEL: @gather_of_load_after_another_store
func.func @gather_of_load_after_another_store(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xbf16>, %r: index,
                                              %i: tensor<8x1xi32>, %x: tensor<8x64xbf16>) -> tensor<8x1xf32> {
  // CHECK: tile.load_elements
  %c0 = arith.constant 0 : index
  %0 = tile.load %v[%r, %c0] : !tile.view<?x?xf32> -> tensor<8x64xf32>
  tile.store %x, %w[%r, %c0] : tensor<8x64xbf16>, !tile.view<?x?xbf16>
  %1 = tile.gather %0[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  return %1 : tensor<8x1xf32>
}

// What only the gather wanted goes with it, also where one of its operations uses another one twice.
// CHECK-LABEL: @gather_of_squares
func.func @gather_of_squares(%v: !tile.view<?x?xf32>, %r: index, %i: tensor<8x1xi32>) -> tensor<8x1xf32> {
  // CHECK-NOT: tensor<8x64xf32>
  // CHECK: tile.load_elements
  // CHECK-NOT: tensor<8x64xf32>
  // CHECK: return
  %c0 = arith.constant 0 : index
  %0 = tile.load %v[%r, %c0] : !tile.view<?x?xf32> -> tensor<8x64xf32>
  %1 = arith.mulf %0, %0 : tensor<8x64xf32>
  %2 = arith.mulf %1, %1 : tensor<8x64xf32>
  %3 = arith.addf %2, %1 : tensor<8x64xf32>
  %4 = tile.gather %3[%i] : tensor<8x64xf32>, tensor<8x1xi32>
  return %4 : tensor<8x1xf32>
}

// Folds, and what common subexpression elimination may do to loads.
// RUN: tile-opt %s --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func.func @dim_of_narrow(
// CHECK-SAME: %[[V:.*]]: !tile.view<?x?xf32>, %[[N:.*]]: index
func.func @dim_of_narrow(%v: !tile.view<?x?xf32>, %n: index) -> (index, index) {
  %0 = tile.narrow %v, 0 to %n : !tile.view<?x?xf32>
  // CHECK: %[[SAME:.*]] = tile.narrow
  // CHECK: %[[ROWS:.*]] = tile.dim %[[SAME]], 0
  // CHECK: %[[COLUMNS:.*]] = tile.dim %[[V]], 1
  %1 = tile.dim %0, 0 : !tile.view<?x?xf32>
  %2 = tile.dim %0, 1 : !tile.view<?x?xf32>
  // CHECK: return %[[ROWS]], %[[COLUMNS]]
  return %1, %2 : index, index
}

// Rows stay as many; of the last axis there are others, unless the elements are the same.
// CHECK-LABEL: func.func @dim_of_reinterpret(
// CHECK-SAME: %[[V:.*]]: !tile.view<?x?xbf16>, %[[W:.*]]: !tile.view<?xf32>
func.func @dim_of_reinterpret(%v: !tile.view<?x?xbf16>, %w: !tile.view<?xf32>) -> (index, index, index, index) {
  // CHECK-DAG: %[[OTHER:.*]] = tile.reinterpret %[[V]]
  // CHECK-DAG: %[[VECTOR:.*]] = tile.reinterpret %[[W]]
  %0 = tile.reinterpret %v : !tile.view<?x?xbf16> to !tile.view<?x?xf32>
  %1 = tile.reinterpret %w : !tile.view<?xf32> to !tile.view<?xbf16>
  %2 = tile.reinterpret %w : !tile.view<?xf32> to !tile.view<?xf32>
  // CHECK-DAG: %[[ROWS:.*]] = tile.dim %[[V]], 0
  // CHECK-DAG: %[[COLUMNS:.*]] = tile.dim %[[OTHER]], 1
  // CHECK-DAG: %[[SIZE:.*]] = tile.dim %[[VECTOR]], 0
  // CHECK-DAG: %[[OWN:.*]] = tile.dim %[[W]], 0
  %3 = tile.dim %0, 0 : !tile.view<?x?xf32>
  %4 = tile.dim %0, 1 : !tile.view<?x?xf32>
  %5 = tile.dim %1, 0 : !tile.view<?xbf16>
  %6 = tile.dim %2, 0 : !tile.view<?xf32>
  // CHECK: return %[[ROWS]], %[[COLUMNS]], %[[SIZE]], %[[OWN]]
  return %3, %4, %5, %6 : index, index, index, index
}

// CHECK-LABEL: func.func @broadcasts(
// CHECK-SAME: %[[X:.*]]: tensor<1x1xf32>, %[[Y:.*]]: tensor<8x?xf32>, %[[N:.*]]: index
func.func @broadcasts(%x: tensor<1x1xf32>, %y: tensor<8x?xf32>, %n: index)
    -> (tensor<8x64xf32>, tensor<8x?xf32>, tensor<8x?xf32>, tensor<8x?xf32>) {
  // CHECK: %[[A:.*]] = tile.broadcast %[[X]] : tensor<1x1xf32> -> tensor<8x64xf32>
  %0 = tile.broadcast %x : tensor<1x1xf32> -> tensor<8x1xf32>
  %1 = tile.broadcast %0 : tensor<8x1xf32> -> tensor<8x64xf32>
  %2 = tile.broadcast %y : tensor<8x?xf32> -> tensor<8x?xf32>
  // CHECK: %[[B:.*]] = tile.broadcast %[[X]] size %[[N]] : tensor<1x1xf32> -> tensor<8x?xf32>
  %3 = tile.broadcast %x size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %4 = tile.broadcast %3 : tensor<1x?xf32> -> tensor<8x?xf32>
  %5 = tile.broadcast %0 size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  // CHECK: return %[[A]], %[[Y]], %[[B]], %[[B]]
  return %1, %2, %4, %5 : tensor<8x64xf32>, tensor<8x?xf32>, tensor<8x?xf32>, tensor<8x?xf32>
}

// CHECK-LABEL: func.func @transposes(
// CHECK-SAME: %[[X:.*]]: tensor<8x64xf32>, %[[S:.*]]: tensor<1x1xf32>
func.func @transposes(%x: tensor<8x64xf32>, %s: tensor<1x1xf32>) -> (tensor<8x64xf32>, tensor<1x1xf32>) {
  %0 = tile.transpose %x : tensor<8x64xf32>
  %1 = tile.transpose %0 : tensor<64x8xf32>
  %2 = tile.transpose %s : tensor<1x1xf32>
  // CHECK-NEXT: return %[[X]], %[[S]]
  return %1, %2 : tensor<8x64xf32>, tensor<1x1xf32>
}

// Equal loads are one; a store between them keeps them apart; a load that nobody uses goes.
// CHECK-LABEL: func.func @loads(
func.func @loads(%v: !tile.view<?xf32>, %w: !tile.view<?xf32>, %i: index) {
  // CHECK-NEXT: %[[A:.*]] = tile.load
  // CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[A]], %[[A]]
  // CHECK-NEXT: tile.store %[[SUM]]
  // CHECK-NEXT: %[[B:.*]] = tile.load
  // CHECK-NEXT: tile.store %[[B]]
  // CHECK-NEXT: return
  %0 = tile.load %v[%i] : !tile.view<?xf32> -> tensor<8x1xf32>
  %1 = tile.load %v[%i] : !tile.view<?xf32> -> tensor<8x1xf32>
  %2 = arith.addf %0, %1 : tensor<8x1xf32>
  tile.store %2, %w[%i] : tensor<8x1xf32>, !tile.view<?xf32>
  %3 = tile.load %v[%i] : !tile.view<?xf32> -> tensor<8x1xf32>
  %4 = tile.load %w[%i] : !tile.view<?xf32> -> tensor<8x1xf32>
  tile.store %3, %w[%i] : tensor<8x1xf32>, !tile.view<?xf32>
  return
}

// A product of widened numbers is that of the numbers themselves, if both are of one type.
// CHECK-LABEL: func.func @dot_of_widened(
// CHECK-SAME: %[[A:.*]]: tensor<8x16xbf16>, %[[B:.*]]: tensor<16x8xbf16>, %[[H:.*]]: tensor<16x8xf16>
func.func @dot_of_widened(%a: tensor<8x16xbf16>, %b: tensor<16x8xbf16>, %h: tensor<16x8xf16>)
    -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = arith.extf %a : tensor<8x16xbf16> to tensor<8x16xf32>
  %1 = arith.extf %b : tensor<16x8xbf16> to tensor<16x8xf32>
  %2 = arith.extf %h : tensor<16x8xf16> to tensor<16x8xf32>
  // CHECK: tile.dot %[[A]], %[[B]] : tensor<8x16xbf16>, tensor<16x8xbf16>
  // CHECK: tile.dot %{{.*}}, %{{.*}} : tensor<8x16xf32>, tensor<16x8xf32>
  %3 = tile.dot %0, %1 : tensor<8x16xf32>, tensor<16x8xf32>
  %4 = tile.dot %0, %2 : tensor<8x16xf32>, tensor<16x8xf32>
  return %3, %4 : tensor<8x8xf32>, tensor<8x8xf32>
}

// The same of what is transposed once it is widened.
// CHECK-LABEL: func.func @dot_of_widened_transpose(
// CHECK-SAME: %[[A:.*]]: tensor<8x16xbf16>, %[[B:.*]]: tensor<8x16xbf16>
func.func @dot_of_widened_transpose(%a: tensor<8x16xbf16>, %b: tensor<8x16xbf16>) -> tensor<8x8xf32> {
  %0 = arith.extf %a : tensor<8x16xbf16> to tensor<8x16xf32>
  %1 = arith.extf %b : tensor<8x16xbf16> to tensor<8x16xf32>
  %2 = tile.transpose %1 : tensor<8x16xf32>
  // CHECK: %[[T:.*]] = tile.transpose %[[B]] : tensor<8x16xbf16>
  // CHECK: tile.dot %[[A]], %[[T]] : tensor<8x16xbf16>, tensor<16x8xbf16>
  %3 = tile.dot %0, %2 : tensor<8x16xf32>, tensor<16x8xf32>
  return %3 : tensor<8x8xf32>
}

// RUN: tile-opt %s --decompose-softmax | FileCheck %s

// CHECK-LABEL: @rows
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xf32>)
func.func @rows(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK-NEXT: %[[M:.*]] = tile.reduce max, %[[X]] along 1 : tensor<8x64xf32>
  // CHECK-NEXT: %[[MS:.*]] = tile.broadcast %[[M]] : tensor<8x1xf32> -> tensor<8x64xf32>
  // CHECK-NEXT: %[[D:.*]] = arith.subf %[[X]], %[[MS]] : tensor<8x64xf32>
  // CHECK-NEXT: %[[E:.*]] = math.exp %[[D]] : tensor<8x64xf32>
  // CHECK-NEXT: %[[S:.*]] = tile.reduce sum, %[[E]] along 1 : tensor<8x64xf32>
  // CHECK-NEXT: %[[L:.*]] = math.log %[[S]] : tensor<8x1xf32>
  // CHECK-NEXT: %[[LS:.*]] = tile.broadcast %[[L]] : tensor<8x1xf32> -> tensor<8x64xf32>
  // CHECK-NEXT: %[[Y:.*]] = arith.subf %[[D]], %[[LS]] : tensor<8x64xf32>
  // CHECK-NEXT: return %[[Y]]
  %0 = tile.log_softmax %x : tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// CHECK-LABEL: @long_rows
// CHECK-SAME: %[[N:[^ ]*]]: index
func.func @long_rows(%v: !tile.view<?x?xf32>, %n: index) {
  // CHECK: tile.broadcast %{{.*}} size %[[N]] : tensor<8x1xf32> -> tensor<8x?xf32>
  // CHECK: tile.broadcast %{{.*}} size %[[N]] : tensor<8x1xf32> -> tensor<8x?xf32>
  // CHECK-NOT: log_softmax
  %c0 = arith.constant 0 : index
  %0 = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %1 = math.absf %0 : tensor<8x?xf32>
  %2 = tile.log_softmax %1 : tensor<8x?xf32>
  tile.store %2, %v[%c0, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// Near miss: a logarithm is no softmax.
// CHECK-LABEL: @log
func.func @log(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK-NEXT: math.log
  // CHECK-NEXT: return
  %0 = math.log %x : tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

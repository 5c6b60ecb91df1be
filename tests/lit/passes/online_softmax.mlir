// RUN: tile-opt %s --online-softmax | FileCheck %s

// CHECK-LABEL: @max_and_sum
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xf32>)
func.func @max_and_sum(%x: tensor<8x64xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  // CHECK-NEXT: %[[M:.*]], %[[S:.*]] = tile.max_sum_exp %[[X]] : tensor<8x64xf32>
  // CHECK-NEXT: return %[[M]], %[[S]]
  %m = tile.reduce max, %x along 1 : tensor<8x64xf32>
  %ms = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
  %d = arith.subf %x, %ms : tensor<8x64xf32>
  %e = math.exp %d : tensor<8x64xf32>
  %s = tile.reduce sum, %e along 1 : tensor<8x64xf32>
  return %m, %s : tensor<8x1xf32>, tensor<8x1xf32>
}

// Other users of exp(x - m) keep it, with m from the one pass.
// CHECK-LABEL: @softmax
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xf32>)
func.func @softmax(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK-NEXT: %[[M:.*]], %[[S:.*]] = tile.max_sum_exp %[[X]]
  // CHECK-NEXT: %[[MS:.*]] = tile.broadcast %[[M]]
  // CHECK-NEXT: %[[D:.*]] = arith.subf %[[X]], %[[MS]]
  // CHECK-NEXT: %[[E:.*]] = math.exp %[[D]]
  // CHECK-NEXT: %[[SS:.*]] = tile.broadcast %[[S]]
  // CHECK-NEXT: arith.divf %[[E]], %[[SS]]
  %m = tile.reduce max, %x along 1 : tensor<8x64xf32>
  %ms = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
  %d = arith.subf %x, %ms : tensor<8x64xf32>
  %e = math.exp %d : tensor<8x64xf32>
  %s = tile.reduce sum, %e along 1 : tensor<8x64xf32>
  %ss = tile.broadcast %s : tensor<8x1xf32> -> tensor<8x64xf32>
  %y = arith.divf %e, %ss : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// One maximum, its sum asked for twice.
// CHECK-LABEL: @two_sums
func.func @two_sums(%x: tensor<8x64xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  // CHECK-NEXT: %[[M:.*]], %[[S:.*]] = tile.max_sum_exp
  // CHECK-NEXT: return %[[S]], %[[S]]
  %m = tile.reduce max, %x along 1 : tensor<8x64xf32>
  %ms = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
  %d0 = arith.subf %x, %ms : tensor<8x64xf32>
  %e0 = math.exp %d0 : tensor<8x64xf32>
  %s0 = tile.reduce sum, %e0 along 1 : tensor<8x64xf32>
  %d1 = arith.subf %x, %ms : tensor<8x64xf32>
  %e1 = math.exp %d1 : tensor<8x64xf32>
  %s1 = tile.reduce sum, %e1 along 1 : tensor<8x64xf32>
  return %s0, %s1 : tensor<8x1xf32>, tensor<8x1xf32>
}

// Near miss: the maximum is of another tile.
// CHECK-LABEL: @another_maximum
func.func @another_maximum(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>) -> tensor<8x1xf32> {
  // CHECK-NOT: max_sum_exp
  // CHECK: return
  %m = tile.reduce max, %y along 1 : tensor<8x64xf32>
  %ms = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
  %d = arith.subf %x, %ms : tensor<8x64xf32>
  %e = math.exp %d : tensor<8x64xf32>
  %s = tile.reduce sum, %e along 1 : tensor<8x64xf32>
  return %s : tensor<8x1xf32>
}

// Near miss: a minimum.
// CHECK-LABEL: @minimum
func.func @minimum(%x: tensor<8x64xf32>) -> tensor<8x1xf32> {
  // CHECK-NOT: max_sum_exp
  // CHECK: return
  %m = tile.reduce min, %x along 1 : tensor<8x64xf32>
  %ms = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
  %d = arith.subf %x, %ms : tensor<8x64xf32>
  %e = math.exp %d : tensor<8x64xf32>
  %s = tile.reduce sum, %e along 1 : tensor<8x64xf32>
  return %s : tensor<8x1xf32>
}

// Near miss: m - x.
// CHECK-LABEL: @reversed
func.func @reversed(%x: tensor<8x64xf32>) -> tensor<8x1xf32> {
  // CHECK-NOT: max_sum_exp
  // CHECK: return
  %m = tile.reduce max, %x along 1 : tensor<8x64xf32>
  %ms = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
  %d = arith.subf %ms, %x : tensor<8x64xf32>
  %e = math.exp %d : tensor<8x64xf32>
  %s = tile.reduce sum, %e along 1 : tensor<8x64xf32>
  return %s : tensor<8x1xf32>
}

// Near miss: columns.
// CHECK-LABEL: @columns
func.func @columns(%x: tensor<8x64xf32>) -> tensor<1x64xf32> {
  // CHECK-NOT: max_sum_exp
  // CHECK: return
  %m = tile.reduce max, %x along 0 : tensor<8x64xf32>
  %ms = tile.broadcast %m : tensor<1x64xf32> -> tensor<8x64xf32>
  %d = arith.subf %x, %ms : tensor<8x64xf32>
  %e = math.exp %d : tensor<8x64xf32>
  %s = tile.reduce sum, %e along 0 : tensor<8x64xf32>
  return %s : tensor<1x64xf32>
}

// Near miss: the sum is in another block than the maximum, and may never be wanted.
// CHECK-LABEL: @sum_in_a_branch
func.func @sum_in_a_branch(%x: tensor<8x64xf32>, %c: i1, %v: !tile.view<?xf32>) {
  // CHECK-NOT: max_sum_exp
  // CHECK: return
  %c0 = arith.constant 0 : index
  %m = tile.reduce max, %x along 1 : tensor<8x64xf32>
  tile.store %m, %v[%c0] : tensor<8x1xf32>, !tile.view<?xf32>
  scf.if %c {
    %ms = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
    %d = arith.subf %x, %ms : tensor<8x64xf32>
    %e = math.exp %d : tensor<8x64xf32>
    %s = tile.reduce sum, %e along 1 : tensor<8x64xf32>
    tile.store %s, %v[%c0] : tensor<8x1xf32>, !tile.view<?xf32>
  }
  return
}

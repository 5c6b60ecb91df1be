// RUN: tile-opt %s --stream-rows='block=128 interior=1 lazy-shift' --canonicalize --cse | FileCheck %s

// The shift is carried beside maximum and sum. The first block, of whose shift nothing is known, is looked through for its
// largest number; all are gone over once, and again where they have a number that is far above the shift, or a NaN. What
// lies behind the interior takes its own maximum first, as without a lazy shift.
// CHECK-LABEL: func.func @sum
func.func @sum(%v: !tile.view<?x?xf32>, %out: !tile.view<?xf32>, %r: index) {
  // CHECK-DAG: %[[NONE:.*]] = arith.constant dense<0xFF800000> : tensor<1x1xf32>
  // CHECK-DAG: %[[MOST:.*]] = arith.constant dense<1.600000e+01> : tensor<1x1xf32>
  // CHECK: %[[ROW:.*]]:3 = scf.for {{.*}} iter_args(%[[M:.*]] = %[[NONE]], %[[S:.*]] = %{{.*}}, %[[A:.*]] = %[[NONE]])
  // CHECK: arith.cmpf oeq, %[[A]], %[[NONE]]
  // CHECK: %[[SHIFT:.*]] = scf.if
  // CHECK: tile.load
  // CHECK: tile.reduce max, %{{.*}} along 1 : tensor<1x128xf32>
  // CHECK: else
  // CHECK-NEXT: scf.yield %[[A]]
  // CHECK: %[[X:.*]] = tile.load
  // CHECK: %[[E:.*]] = math.exp %{{.*}} fastmath<afn> : tensor<1x128xf32>
  // CHECK: %[[TOP:.*]] = tile.reduce max, %[[X]] along 1 {numbers_only}
  // CHECK: %[[SUM:.*]] = tile.reduce sum, %[[E]]
  // CHECK: %[[LIMIT:.*]] = arith.addf %[[SHIFT]], %[[MOST]]
  // CHECK: %[[ABOVE:.*]] = arith.cmpf ogt, %[[TOP]], %[[LIMIT]]
  // CHECK: %[[NAN:.*]] = arith.cmpf uno, %[[SUM]], %[[SUM]]
  // CHECK: %[[MAX:.*]] = arith.maximumf %[[M]], %[[TOP]]
  // CHECK: %[[TOTAL:.*]] = arith.addf %[[S]], %[[SUM]]
  // CHECK: arith.ori %[[ABOVE]], %[[NAN]]
  // CHECK: scf.if {{.*}} -> (tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>)
  // CHECK: tile.load
  // CHECK: tile.reduce max, %{{.*}} along 1 : tensor<1x128xf32>
  // CHECK: math.exp {{.*}} fastmath<afn> : tensor<1x128xf32>
  // CHECK: else
  // CHECK-NEXT: scf.yield %[[MAX]], %[[TOTAL]], %[[SHIFT]]
  // CHECK: %[[ALL:.*]]:3 = scf.for {{.*}} iter_args(%{{.*}} = %[[ROW]]#0, %{{.*}} = %[[ROW]]#1, %{{.*}} = %[[ROW]]#2)
  // CHECK-NOT: scf.if
  // CHECK: tile.sweep
  // CHECK: %[[F:.*]] = math.exp %{{.*}} : tensor<1x1xf32>
  // CHECK: %[[RESULT:.*]] = arith.mulf %[[ALL]]#1, %[[F]]
  // CHECK: tile.store %[[ALL]]#0
  // CHECK: tile.store %[[RESULT]]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %m, %s = tile.max_sum_exp %x : tensor<1x?xf32>
  tile.store %m, %out[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  tile.store %s, %out[%c1] : tensor<1x1xf32>, !tile.view<?xf32>
  return
}

// Of several rows, whose shifts would be several: no. Nor where the sweep writes, as a block may be read twice.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: scf.if
// CHECK-LABEL: func.func @writes
// CHECK-NOT: scf.if
func.func @rows(%v: !tile.view<?x?xf32>, %out: !tile.view<?xf32>, %r: index) {
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<4x?xf32>
  %m, %s = tile.max_sum_exp %x : tensor<4x?xf32>
  tile.store %s, %out[%c0] : tensor<4x1xf32>, !tile.view<?xf32>
  return
}
func.func @writes(%v: !tile.view<?x?xf32>, %out: !tile.view<?xf32>, %r: index) {
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %y = arith.addf %x, %x : tensor<1x?xf32>
  tile.store %y, %v[%r, %c0] : tensor<1x?xf32>, !tile.view<?x?xf32>
  %m, %s = tile.max_sum_exp %y : tensor<1x?xf32>
  tile.store %s, %out[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  return
}

// RUN: tile-opt %s --stream-rows='block=128 interior=1 kept-exponentials=1000' --canonicalize --cse | FileCheck %s

// Softmax: the first sweep keeps as many exponentials as there is room for in whole blocks, and each block's maximum; the
// second has its own from them. What lies behind is made anew.
// CHECK-LABEL: func.func @softmax
func.func @softmax(%v: !tile.view<?x?xf32>, %r: index) {
  // CHECK: %[[K:.*]] = tile.interior
  // CHECK-DAG: %[[TERMS:.*]] = tile.on_chip 896 : !tile.view<?xf32>
  // CHECK-DAG: %[[MAXIMA:.*]] = tile.on_chip 7 : !tile.view<?xf32>
  // CHECK: %[[KEPT:.*]] = arith.minsi %[[K]], %c896
  // CHECK: %[[A:.*]]:2 = scf.for %[[C:.*]] = %c0 to %[[KEPT]] step %c128
  // CHECK: %[[B:.*]] = arith.divui %[[C]], %c128
  // CHECK: %[[M:.*]] = arith.maximumf
  // CHECK: %[[E:.*]] = math.exp %{{.*}} fastmath<afn> : tensor<1x128xf32>
  // CHECK: tile.store %[[E]], %[[TERMS]][%[[C]]] {interior}
  // CHECK: tile.store %[[M]], %[[MAXIMA]][%[[B]]] : tensor<1x1xf32>
  // CHECK: scf.for %{{.*}} = %[[KEPT]] to %[[K]] step %c128 iter_args(%{{.*}} = %[[A]]#0
  // CHECK-NOT: tile.store
  // CHECK: %[[ROW:.*]]:2 = scf.for
  // CHECK: %[[SAME:.*]] = arith.cmpi eq, %[[K2:.*]], %[[K]]
  // CHECK: %[[KEPT2:.*]] = arith.select %[[SAME]], %[[KEPT]], %c0
  // CHECK: scf.for %[[C:.*]] = %c0 to %[[KEPT2]] step %c128
  // CHECK-NOT: tile.load %{{.*}} : !tile.view<?x?xf32>
  // CHECK: %[[E:.*]] = tile.load %[[TERMS]][%[[C]]] {interior}
  // CHECK: %[[MB:.*]] = tile.load %[[MAXIMA]]
  // CHECK: %[[D:.*]] = arith.subf %[[MB]], %[[ROW]]#0
  // CHECK: %[[F:.*]] = math.exp %[[D]] : tensor<1x1xf32>
  // CHECK: %[[FS:.*]] = tile.broadcast %[[F]]
  // CHECK: arith.mulf %[[E]], %[[FS]]
  // CHECK: scf.for %{{.*}} = %[[KEPT2]] to %[[K2]] step %c128
  // CHECK: math.exp
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %m, %s = tile.max_sum_exp %x : tensor<1x?xf32>
  %ms = tile.broadcast %m size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %d = arith.subf %x, %ms : tensor<1x?xf32>
  %e = math.exp %d : tensor<1x?xf32>
  %sums = tile.broadcast %s size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %y = arith.divf %e, %sums : tensor<1x?xf32>
  tile.store %y, %v[%r, %c0] : tensor<1x?xf32>, !tile.view<?x?xf32>
  return
}

// With the label apart: the other classes' exponentials are those of all classes in every block but the label's.
// CHECK-LABEL: func.func @label_apart
// CHECK: tile.on_chip 896
// CHECK: tile.store %{{.*}} {interior} : tensor<1x128xf32>, !tile.view<?xf32>
// CHECK: tile.load %{{.*}} {interior} : !tile.view<?xf32> -> tensor<1x128xf32>
func.func @label_apart(%v: !tile.view<?x?xf32>, %r: index, %y: tensor<1x1xi32>, %t: tensor<1x1xf32>) {
  %c0 = arith.constant 0 : index
  %low = arith.constant dense<-1.0e+30> : tensor<1x1xf32>
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %position = tile.iota %c0 along 1 size %n : tensor<1x?xi32>
  %ys = tile.broadcast %y size %n : tensor<1x1xi32> -> tensor<1x?xi32>
  %other = arith.cmpi ne, %position, %ys : tensor<1x?xi32>
  %lows = tile.broadcast %low size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %others = arith.select %other, %x, %lows : tensor<1x?xi1>, tensor<1x?xf32>
  %m, %s = tile.max_sum_exp %others : tensor<1x?xf32>
  %a = arith.maximumf %m, %t : tensor<1x1xf32>
  %as = tile.broadcast %a size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %d = arith.subf %x, %as : tensor<1x?xf32>
  %e = math.exp %d : tensor<1x?xf32>
  %sums = tile.broadcast %s size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %p = arith.divf %e, %sums : tensor<1x?xf32>
  %z = arith.select %other, %p, %lows : tensor<1x?xi1>, tensor<1x?xf32>
  tile.store %z, %v[%r, %c0] : tensor<1x?xf32>, !tile.view<?x?xf32>
  return
}

// Near miss: what is subtracted may be less than the maximum, and the factor infinite.
// CHECK-LABEL: func.func @other_shift
// CHECK-NOT: tile.on_chip
// CHECK: return
func.func @other_shift(%v: !tile.view<?x?xf32>, %r: index, %t: tensor<1x1xf32>) {
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %m, %s = tile.max_sum_exp %x : tensor<1x?xf32>
  %a = arith.minimumf %m, %t : tensor<1x1xf32>
  %as = tile.broadcast %a size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %d = arith.subf %x, %as : tensor<1x?xf32>
  %e = math.exp %d : tensor<1x?xf32>
  tile.store %e, %v[%r, %c0] : tensor<1x?xf32>, !tile.view<?x?xf32>
  return
}

// RUN: tile-opt %s --stream-rows='block=128 interior=4' --canonicalize --cse | FileCheck %s

// Σ x: blocks of the interior have no masks; the rest goes on from their sum.
// CHECK-LABEL: @sum
// CHECK-SAME: (%[[V:.*]]: !tile.view<?x?xf32>, %[[R:[^ ]*]]: index, %[[N:[^ ]*]]: index)
func.func @sum(%v: !tile.view<?x?xf32>, %r: index, %n: index) -> tensor<8x1xf32> {
  // CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
  // CHECK: %[[ROWS:.*]] = arith.andi %{{.*}}, %{{.*}} : i1
  // CHECK: %[[WIDTH:.*]] = arith.select %[[ROWS]], %[[N]], %[[C0]] : index
  // CHECK: %[[K:.*]] = tile.interior %[[WIDTH]] step 512 of %[[V]] : !tile.view<?x?xf32>
  // CHECK: %[[S:.*]] = scf.for %[[C:.*]] = %[[C0]] to %[[K]] step %{{.*}} iter_args(%[[A:.*]] = %{{.*}})
  // CHECK-NEXT: %[[X:.*]] = tile.load %[[V]][%[[R]], %[[C]]] {interior} : !tile.view<?x?xf32> -> tensor<8x512xf32>
  // CHECK-NEXT: %[[B:.*]] = tile.reduce sum, %[[X]] along 1
  // CHECK-NEXT: %[[T:.*]] = arith.addf %[[A]], %[[B]]
  // CHECK-NEXT: scf.yield %[[T]]
  // CHECK-NEXT: } {tile.sweep}
  // CHECK: %[[ALL:.*]] = scf.for %[[D:.*]] = %[[K]] to %[[N]] step %{{.*}} iter_args(%{{.*}} = %[[S]])
  // CHECK: tile.load %[[V]][%[[R]], %[[D]]] : !tile.view<?x?xf32> -> tensor<8x128xf32>
  // CHECK: arith.select
  // CHECK: } {tile.sweep}
  // CHECK: return %[[ALL]]
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
  return %s : tensor<8x1xf32>
}

// A one-hot row: the block with the position is left out of the interior, and comes first in the rest.
// CHECK-LABEL: @one_hot
// CHECK-SAME: %[[Y:[^ ]*]]: tensor<1x1xi32>
func.func @one_hot(%v: !tile.view<?x?xf32>, %r: index, %y: tensor<1x1xi32>, %n: index) {
  // CHECK: %[[K:.*]] = tile.interior
  // CHECK: %[[AT:.*]] = tile.extract %[[Y]] : tensor<1x1xi32>
  // CHECK: %[[IN:.*]] = arith.cmpi ult, %[[AT]], %[[K]] : index
  // CHECK: %[[OVER:.*]] = arith.remui %[[AT]], %[[STEP:.*]] : index
  // CHECK: %[[BEGIN:.*]] = arith.subi %[[AT]], %[[OVER]] : index
  // CHECK: %[[SKIPPED:.*]] = arith.select %[[IN]], %[[BEGIN]], %[[K]] : index
  // CHECK: %[[AHEAD:.*]] = arith.select %[[IN]], %[[STEP]], %{{.*}} : index
  // CHECK: %[[LEFT_OUT:.*]] = arith.cmpi slt, %[[SKIPPED]], %[[K]] : index
  // CHECK: %[[COUNT:.*]] = arith.select %[[LEFT_OUT]], %[[STEP]], %{{.*}} : index
  // CHECK: %[[END:.*]] = arith.subi %[[K]], %[[COUNT]] : index
  // CHECK: scf.for %[[C:.*]] = %{{.*}} to %[[END]] step %[[STEP]] {
  // CHECK-NEXT: %[[BEHIND:.*]] = arith.cmpi sge, %[[C]], %[[SKIPPED]] : index
  // CHECK-NEXT: %[[SHIFT:.*]] = arith.select %[[BEHIND]], %[[STEP]], %{{.*}} : index
  // CHECK-NEXT: %[[COLUMN:.*]] = arith.addi %[[C]], %[[SHIFT]] : index
  // CHECK-NEXT: %[[X:.*]] = tile.load %{{.*}}[%{{.*}}, %[[COLUMN]]] {interior} : !tile.view<?x?xf32> -> tensor<1x512xf32>
  // CHECK-NEXT: tile.store %[[X]], %{{.*}}[%{{.*}}, %[[COLUMN]]] {interior}
  // CHECK: %[[BEGIN:.*]] = arith.subi %[[K]], %[[AHEAD]] : index
  // CHECK: scf.for %[[C:.*]] = %[[BEGIN]] to %{{.*}} step
  // CHECK: %[[IS_LEFT:.*]] = arith.cmpi sge, %[[C]], %[[K]] : index
  // CHECK: %[[COLUMN:.*]] = arith.select %[[IS_LEFT]], %[[C]], %{{.*}} : index
  // CHECK: arith.cmpi ne
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %[[COLUMN]]] : tensor<1x128xf32>
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %position = tile.iota %c0 along 1 size %n : tensor<1x?xi32>
  %ys = tile.broadcast %y size %n : tensor<1x1xi32> -> tensor<1x?xi32>
  %other = arith.cmpi ne, %position, %ys : tensor<1x?xi32>
  %negative = arith.negf %x : tensor<1x?xf32>
  %z = arith.select %other, %x, %negative : tensor<1x?xi1>, tensor<1x?xf32>
  tile.store %z, %v[%r, %c0] : tensor<1x?xf32>, !tile.view<?x?xf32>
  return
}

// Near miss: rows that begin elsewhere are as well aligned as that place is.
// CHECK-LABEL: @begins_elsewhere
// CHECK-NOT: tile.interior
// CHECK: return
func.func @begins_elsewhere(%v: !tile.view<?x?xf32>, %r: index, %j: index, %n: index) -> tensor<8x1xf32> {
  %x = tile.load %v[%r, %j] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
  return %s : tensor<8x1xf32>
}

// RUN: tile-opt %s --stream-rows='block=128 interior=4 kept-bytes=9000 partners=2' --canonicalize --cse | FileCheck %s

// y = x / Σ x: partners take blocks in turn, copy them on chip ahead of everything else, and tell each other their sums.
// CHECK-LABEL: func.func @normalise
// CHECK-SAME: attributes {tile.partners = 2 : i64}
func.func @normalise(%v: !tile.view<?x?xf32>, %r: index) {
  // CHECK: %[[K:.*]] = tile.interior %{{.*}} step 512 of %[[V:.*]] : !tile.view<?x?xf32>
  // CHECK: %[[P:.*]] = tile.partner
  // CHECK: %[[FIRST:.*]] = arith.muli %[[P]], %c512
  // CHECK: %[[PLACE:.*]] = tile.on_chip 2048 : !tile.view<?xf32>
  // CHECK: %[[KEPT:.*]] = arith.minsi %[[K]], %c4096
  // CHECK: scf.for %[[C:.*]] = %[[FIRST]] to %[[KEPT]] step %c1024 {
  // CHECK-NEXT: %[[MINE:.*]] = arith.subi %[[C]], %[[FIRST]]
  // CHECK-NEXT: %[[AT:.*]] = arith.divui %[[MINE]], %c2
  // CHECK-NEXT: %[[X:.*]] = tile.load %[[V]][%{{.*}}, %[[C]]] {interior} : !tile.view<?x?xf32> -> tensor<1x512xf32>
  // CHECK-NEXT: tile.store %[[X]], %[[PLACE]][%[[AT]]] {interior}
  // CHECK-NEXT: } {tile.sweep}
  // CHECK: %[[LATER:.*]] = arith.subi %c128
  // CHECK: %[[BEGIN:.*]] = arith.addi %[[KEPT]], %[[LATER]]
  // CHECK: %[[B:.*]] = scf.for %{{.*}} = %[[BEGIN]] to %{{.*}} step %c256
  // CHECK-NOT: tile.store
  // CHECK: %[[S:.*]] = scf.for %{{.*}} = %[[FIRST]] to %[[KEPT]] step %c1024 iter_args(%{{.*}} = %[[B]])
  // CHECK: tile.load %[[PLACE]][%{{.*}}] {interior}
  // CHECK: %[[ALL:.*]] = tile.on_chip 2 : !tile.view<?xf32>
  // CHECK-NEXT: tile.exchange %[[S]] to %[[ALL]] : tensor<1x1xf32> to !tile.view<?xf32>
  // CHECK-NEXT: %[[SUMS:.*]] = tile.load %[[ALL]][%c0] : !tile.view<?xf32> -> tensor<1x2xf32>
  // CHECK-NEXT: %[[SUM:.*]] = tile.reduce sum, %[[SUMS]] along 1
  // CHECK: %[[SAME:.*]] = arith.cmpi eq, %[[END:.*]], %[[K]]
  // CHECK: %[[KEPT2:.*]] = arith.select %[[SAME]], %[[KEPT]], %c0
  // CHECK: scf.for
  // CHECK: tile.load %[[V]]
  // CHECK: scf.for %[[C:.*]] = %[[FIRST]] to %[[KEPT2]] step %c1024
  // CHECK: %[[X:.*]] = tile.load %[[PLACE]][%{{.*}}] {interior} : !tile.view<?xf32> -> tensor<1x512xf32>
  // CHECK: %[[Y:.*]] = arith.divf %[[X]]
  // CHECK: tile.store %[[Y]], %{{.*}}[%{{.*}}, %[[C]]] {interior}
  // CHECK-NOT: tile.exchange
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %s = tile.reduce sum, %x along 1 : tensor<1x?xf32>
  %sums = tile.broadcast %s size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %y = arith.divf %x, %sums : tensor<1x?xf32>
  tile.store %y, %v[%r, %c0] : tensor<1x?xf32>, !tile.view<?x?xf32>
  return
}

// A row's maximum and sum of exponentials: the sums of all follow the largest maximum.
// CHECK-LABEL: @max_sum_exp
func.func @max_sum_exp(%v: !tile.view<?x?xf32>, %r: index) -> (tensor<1x1xf32>, tensor<1x1xf32>) {
  // CHECK: tile.exchange %[[M:.*]], %[[S:.*]] to
  // CHECK: %[[MS:.*]] = tile.load
  // CHECK: %[[SS:.*]] = tile.load
  // CHECK: %[[TOP:.*]] = tile.reduce max, %[[MS]] along 1 : tensor<1x2xf32>
  // CHECK: %[[D:.*]] = arith.subf %[[MS]], %{{.*}} : tensor<1x2xf32>
  // CHECK: %[[E:.*]] = math.exp %[[D]] : tensor<1x2xf32>
  // CHECK: %[[SCALED:.*]] = arith.mulf %[[SS]], %[[E]] : tensor<1x2xf32>
  // CHECK: %[[SUM:.*]] = tile.reduce sum, %[[SCALED]] along 1 : tensor<1x2xf32>
  // CHECK: return %[[TOP]], %[[SUM]]
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %m, %s = tile.max_sum_exp %x : tensor<1x?xf32>
  return %m, %s : tensor<1x1xf32>, tensor<1x1xf32>
}

// What all compare their position with: every block is kept, its own too, and only the partner who has that block leaves
// it out, and does it in smaller ones.
// CHECK-LABEL: func.func @without_one
// CHECK-SAME: %[[Y:[^ ]*]]: tensor<1x1xi32>
func.func @without_one(%v: !tile.view<?x?xf32>, %r: index, %y: tensor<1x1xi32>) -> tensor<1x1xf32> {
  // CHECK: %[[K:.*]] = tile.interior
  // CHECK: %[[FIRST:.*]] = arith.muli %{{.*}}, %c512
  // CHECK: %[[KEPT:.*]] = arith.minsi %[[K]], %c4096
  // CHECK: scf.for %{{.*}} = %[[FIRST]] to %[[KEPT]] step %c1024 {
  // CHECK: tile.store
  // CHECK: %[[AT:.*]] = tile.extract %[[Y]]
  // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[AT]], %[[KEPT]]
  // CHECK: %[[BLOCK:.*]] = arith.subi %[[AT]],
  // CHECK: %[[AMONG:.*]] = arith.remui %[[BLOCK]], %c1024
  // CHECK: %[[MINE:.*]] = arith.cmpi eq, %[[AMONG]], %[[FIRST]]
  // CHECK: %[[OUT:.*]] = arith.andi %[[INSIDE]], %[[MINE]]
  // CHECK: %[[SKIPPED:.*]] = arith.select %[[OUT]], %[[BLOCK]], %[[KEPT]]
  // CHECK: %[[AHEAD:.*]] = arith.select %[[OUT]], %c1024, %c0
  // CHECK: %[[BEGIN:.*]] = arith.subi %[[REST:.*]], %[[AHEAD]]
  // CHECK: scf.for %[[C:.*]] = %[[BEGIN]] to
  // CHECK: arith.cmpi sge, %[[C]], %[[REST]]
  // CHECK: scf.for %[[C:.*]] = %[[FIRST]] to %{{.*}} step %c1024
  // CHECK-NEXT: arith.cmpi sge, %[[C]], %[[SKIPPED]]
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %position = tile.iota %c0 along 1 size %n : tensor<1x?xi32>
  %ys = tile.broadcast %y size %n : tensor<1x1xi32> -> tensor<1x?xi32>
  %other = arith.cmpi ne, %position, %ys : tensor<1x?xi32>
  %negative = arith.negf %x : tensor<1x?xf32>
  %z = arith.select %other, %x, %negative : tensor<1x?xi1>, tensor<1x?xf32>
  %s = tile.reduce sum, %z along 1 : tensor<1x?xf32>
  %sums = tile.broadcast %s size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %q = arith.divf %z, %sums : tensor<1x?xf32>
  tile.store %q, %v[%r, %c0] : tensor<1x?xf32>, !tile.view<?x?xf32>
  return %s : tensor<1x1xf32>
}

// RUN: tile-opt %s --stream-rows='block=128 interior=4 cut-left-out kept-exponentials=1024' --canonicalize --cse | FileCheck %s

// The block that the interior leaves out for the label is cut into four of 128 columns, which have a loop with the whole
// blocks of 128 behind the interior. Nothing is compared or masked there, and their exponentials are kept behind those of
// the interior. The one with the label goes with the rest.
// CHECK-LABEL: func.func @label_apart
// CHECK-DAG: %[[TERMS:.*]] = tile.on_chip 2048 : !tile.view<?xf32>
// CHECK-DAG: tile.on_chip 10 : !tile.view<?xf32>
// CHECK-DAG: %[[END:.*]] = tile.interior %{{.*}} step 512
// CHECK-DAG: %[[NEAR:.*]] = tile.interior %{{.*}} step 128
// CHECK: scf.for {{.*}} step %c512
// CHECK: tile.store %{{.*}}, %[[TERMS]]
// CHECK: scf.for {{.*}} step %c512
// CHECK: %[[BEHIND:.*]] = arith.subi %[[NEAR]], %[[END]]
// CHECK: %[[ALL:.*]] = arith.addi %[[CUT:.*]], %[[BEHIND]]
// CHECK: %[[MASKED:.*]] = arith.select %{{.*}}, %c128, %[[CUT]]
// CHECK: %[[HOLE:.*]] = arith.select %{{.*}}, %{{.*}}, %[[ALL]]
// CHECK: %[[IS_HOLE:.*]] = arith.cmpi ult, %[[HOLE]], %[[ALL]]
// CHECK: %[[LESS:.*]] = arith.select %[[IS_HOLE]], %c128, %c0
// CHECK: %[[LAST:.*]] = arith.subi %[[ALL]], %[[LESS]]
// CHECK: scf.for %[[AT:.*]] = %c0 to %[[LAST]] step %c128
// CHECK-NOT: tile.iota
// CHECK: arith.cmpi sge, %[[AT]], %[[HOLE]]
// CHECK: %[[PLACE:.*]] = arith.addi %[[AT]], %c1024
// CHECK: tile.store %{{.*}}, %[[TERMS]][%[[PLACE]]] {interior} : tensor<1x128xf32>
// CHECK: %[[REST:.*]] = arith.subi %[[NEAR]], %[[MASKED]]
// CHECK: scf.for %{{.*}} = %[[REST]] to %{{.*}} step %c128
// CHECK: tile.iota
// CHECK: scf.for {{.*}} step %c512
// CHECK: tile.load %[[TERMS]]
// CHECK: scf.for {{.*}} step %c512
// CHECK: scf.for {{.*}} step %c128
// CHECK-NOT: math.exp {{.*}} : tensor<1x128xf32>
// CHECK: tile.load %[[TERMS]]
// CHECK: scf.for {{.*}} step %c128
// CHECK: tile.iota
// CHECK: math.exp {{.*}} : tensor<1x128xf32>
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

// What a row's number and a kept exponential's factor come to is made once a block.
// CHECK-LABEL: func.func @scaled
// CHECK: %[[E:.*]] = tile.load %{{.*}} {interior} : !tile.view<?xf32> -> tensor<1x512xf32>
// CHECK: %[[F:.*]] = math.exp %{{.*}} : tensor<1x1xf32>
// CHECK: %[[W:.*]] = arith.mulf %{{.*}}, %[[F]] : tensor<1x1xf32>
// CHECK: %[[WS:.*]] = tile.broadcast %[[W]]
// CHECK: arith.mulf %[[E]], %[[WS]]
// CHECK-NOT: arith.mulf
// CHECK: tile.store
func.func @scaled(%v: !tile.view<?x?xf32>, %r: index, %w: tensor<1x1xf32>) {
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<1x?xf32>
  %m, %s = tile.max_sum_exp %x : tensor<1x?xf32>
  %ms = tile.broadcast %m size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %d = arith.subf %x, %ms : tensor<1x?xf32>
  %e = math.exp %d : tensor<1x?xf32>
  %p = arith.divf %w, %s : tensor<1x1xf32>
  %ps = tile.broadcast %p size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %z = arith.mulf %ps, %e : tensor<1x?xf32>
  tile.store %z, %v[%r, %c0] : tensor<1x?xf32>, !tile.view<?x?xf32>
  return
}

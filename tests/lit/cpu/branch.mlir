// RUN: tile-opt %s --split-input-file --lower-to-vector="lanes=8" --cse | FileCheck %s

// What a branch gives is stored by the side that is taken.
// CHECK-LABEL: func.func @choice
// CHECK: scf.if
// CHECK: arith.addf
// CHECK: %[[TWICE:.*]] = llvm.load
// CHECK: %[[Y:.*]] = llvm.getelementptr %[[PLACE:.*]][0]
// CHECK: llvm.store %[[TWICE]], %[[Y]]
// CHECK: } else {
// CHECK: %[[A:.*]] = llvm.load
// CHECK: %[[Y:.*]] = llvm.getelementptr %[[PLACE]][0]
// CHECK: llvm.store %[[A]], %[[Y]]
// CHECK: }
// CHECK: %[[Y:.*]] = llvm.getelementptr %[[PLACE]][0]
// CHECK: llvm.load %[[Y]]
func.func @choice(%x: !tile.view<?xf32> {tile.name = "x"}, %n: index {tile.name = "n"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0] : !tile.view<?xf32> -> tensor<1x1xf32>
  %isLarge = arith.cmpi sgt, %n, %c0 : index
  %y = scf.if %isLarge -> (tensor<1x1xf32>) {
    %twice = arith.addf %a, %a : tensor<1x1xf32>
    scf.yield %twice : tensor<1x1xf32>
  } else {
    scf.yield %a : tensor<1x1xf32>
  }
  tile.store %y, %x[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  return
}

// -----

// A maximum that leaves NaNs out does not look for them. The row is asked for a line at a time, as the loop evaluates a
// function, which takes long.
// CHECK-LABEL: func.func @numbers_only
// CHECK: scf.for
// CHECK-COUNT-2: llvm.intr.prefetch
// CHECK: math.exp
// CHECK: arith.cmpf ogt
// CHECK-NOT: arith.cmpf uno
// CHECK: return
func.func @numbers_only(%x: !tile.view<?x?xf32> {tile.name = "x"}, %y: !tile.view<?xf32> {tile.name = "y"})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tile.load %x[%c0, %c0] {interior} : !tile.view<?x?xf32> -> tensor<1x64xf32>
  %e = math.exp %a : tensor<1x64xf32>
  %m = tile.reduce max, %a along 1 {numbers_only} : tensor<1x64xf32>
  %s = tile.reduce sum, %e along 1 : tensor<1x64xf32>
  tile.store %m, %y[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  tile.store %s, %y[%c1] : tensor<1x1xf32>, !tile.view<?xf32>
  return
}

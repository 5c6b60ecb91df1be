// RUN: tile-opt %s --split-input-file --lower-to-vector="lanes=8 registers=16" --cse | FileCheck %s

// The interior of a bf16 row is taken in pairs: 16 columns of a register are 8 words, whose lower halves are one vector
// of fp32 and whose upper halves another. Memory on chip has the numbers in that order, in this loop and in the next.
// CHECK-LABEL: func.func @row
// CHECK: scf.for
// CHECK: %[[X:.*]] = llvm.load {{.*}} -> vector<16xi16>
// CHECK: %[[P:.*]] = vector.bitcast %{{.*}} : vector<16xi16> to vector<8xi32>
// CHECK: %[[LOW:.*]] = arith.shli %[[P]]
// CHECK: %[[HIGH:.*]] = arith.andi %[[P]]
// CHECK: vector.shuffle {{.*}} [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK: math.exp {{.*}} : vector<16xf32>
// CHECK: llvm.store {{.*}} : vector<16xf32>
// CHECK: scf.for
// CHECK: llvm.load {{.*}} -> vector<32xf32>
// CHECK: arith.mulf
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 33, 2, 35, {{.*}}] : vector<32xi16>, vector<32xi16>
// CHECK: llvm.store {{.*}} : vector<32xi16>
func.func @row(%x: !tile.view<?x?xbf16> {tile.name = "x"}, %y: !tile.view<?x?xbf16> {tile.name = "y"},
               %n: index {tile.name = "n"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %m = tile.on_chip 1024 : !tile.view<?xf32>
  scf.for %j = %c0 to %n step %c64 {
    %a = tile.load %x[%c0, %j] {interior} : !tile.view<?x?xbf16> -> tensor<1x64xbf16>
    %w = arith.extf %a : tensor<1x64xbf16> to tensor<1x64xf32>
    %e = math.exp %w : tensor<1x64xf32>
    tile.store %e, %m[%j] {interior} : tensor<1x64xf32>, !tile.view<?xf32>
  }
  scf.for %j = %c0 to %n step %c64 {
    %e = tile.load %m[%j] {interior} : !tile.view<?xf32> -> tensor<1x64xf32>
    %s = arith.mulf %e, %e : tensor<1x64xf32>
    %b = arith.truncf %s : tensor<1x64xf32> to tensor<1x64xbf16>
    tile.store %b, %y[%c0, %j] {interior} : tensor<1x64xbf16>, !tile.view<?x?xbf16>
  }
  return
}

// -----

// The second loop reads fp32 numbers beside those on chip, in their order. So the first one keeps it, too.
// CHECK-LABEL: func.func @row_of_two_types
// CHECK-NOT: vector.bitcast
func.func @row_of_two_types(%x: !tile.view<?x?xbf16> {tile.name = "x"}, %f: !tile.view<?xf32> {tile.name = "f"},
                            %y: !tile.view<?x?xbf16> {tile.name = "y"}, %n: index {tile.name = "n"})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %m = tile.on_chip 1024 : !tile.view<?xf32>
  scf.for %j = %c0 to %n step %c64 {
    %a = tile.load %x[%c0, %j] {interior} : !tile.view<?x?xbf16> -> tensor<1x64xbf16>
    %w = arith.extf %a : tensor<1x64xbf16> to tensor<1x64xf32>
    tile.store %w, %m[%j] {interior} : tensor<1x64xf32>, !tile.view<?xf32>
  }
  scf.for %j = %c0 to %n step %c64 {
    %e = tile.load %m[%j] {interior} : !tile.view<?xf32> -> tensor<1x64xf32>
    %g = tile.load %f[%j] {interior} : !tile.view<?xf32> -> tensor<1x64xf32>
    %s = arith.mulf %e, %g : tensor<1x64xf32>
    %b = arith.truncf %s : tensor<1x64xf32> to tensor<1x64xbf16>
    tile.store %b, %y[%c0, %j] {interior} : tensor<1x64xbf16>, !tile.view<?x?xbf16>
  }
  return
}

// -----

// A maximum leaves NaNs out; a second vector says whether there were any, of two registers at once.
// CHECK-LABEL: func.func @maximum
// CHECK: scf.for {{.*}} iter_args(%[[M:.*]] = %{{.*}}, %[[NANS:.*]] = %{{.*}}) -> (vector<32xf32>, vector<16xi32>)
// CHECK: %[[MORE:.*]] = arith.cmpf ogt, %[[X:.*]], %[[M]] : vector<32xf32>
// CHECK: arith.select %[[MORE]], %[[X]], %[[M]]
// CHECK: arith.cmpf uno, %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK: arith.ori %[[NANS]]
// CHECK: vector.reduction <or>
// CHECK: arith.select
func.func @maximum(%x: !tile.view<?x?xbf16> {tile.name = "x"}, %y: !tile.view<?xf32> {tile.name = "y"})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] {interior} : !tile.view<?x?xbf16> -> tensor<1x64xbf16>
  %w = arith.extf %a : tensor<1x64xbf16> to tensor<1x64xf32>
  %m = tile.reduce max, %w along 1 : tensor<1x64xf32>
  tile.store %m, %y[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  return
}

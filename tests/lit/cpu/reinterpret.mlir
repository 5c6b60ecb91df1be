// RUN: tile-opt %s --lower-to-vector --canonicalize --cse | FileCheck %s

// A strip that is stored may lie over one that is loaded after it: all of the block is loaded and widened before the
// first is stored.
// CHECK-LABEL: func.func @widened_in_place(
// CHECK: scf.for
// CHECK: llvm.intr.masked.load
// CHECK-NOT: llvm.intr.masked.store
// CHECK: llvm.store
// CHECK: }
// CHECK: scf.for
// CHECK-NOT: llvm.intr.masked.load
// CHECK: llvm.intr.masked.store
func.func @widened_in_place(%v: !tile.view<?x?xbf16> {tile.name = "v", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %w = tile.reinterpret %v : !tile.view<?x?xbf16> to !tile.view<?x?xf32>
  %x = tile.load %v[%c0, %c0] : !tile.view<?x?xbf16> -> tensor<1x64xbf16>
  %y = arith.extf %x : tensor<1x64xbf16> to tensor<1x64xf32>
  tile.store %y, %w[%c0, %c0] : tensor<1x64xf32>, !tile.view<?x?xf32>
  return
}

// The same of two stores, whose order it is that says what memory holds.
// CHECK-LABEL: func.func @stored_twice(
// CHECK: llvm.intr.masked.store {{.*}} vector<{{.*}}xf32>
// CHECK: }
// CHECK: scf.for
// CHECK: llvm.intr.masked.store {{.*}} vector<{{.*}}xi16>
func.func @stored_twice(%v: !tile.view<?x?xbf16> {tile.name = "v", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %one = arith.constant dense<1.0> : tensor<1x64xf32>
  %two = arith.constant dense<2.0> : tensor<1x64xbf16>
  %w = tile.reinterpret %v : !tile.view<?x?xbf16> to !tile.view<?x?xf32>
  tile.store %one, %w[%c0, %c0] : tensor<1x64xf32>, !tile.view<?x?xf32>
  tile.store %two, %v[%c0, %c0] : tensor<1x64xbf16>, !tile.view<?x?xbf16>
  return
}

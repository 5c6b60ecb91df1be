// RUN: tile-opt %s --pass-pipeline='builtin.module(func.func(online-softmax,stream-rows{block=1024}),canonicalize,cse,loop-invariant-code-motion,func.func(assign-layouts),lower-to-threads,canonicalize,cse)' | FileCheck %s

// Threads add up their own columns; they come together behind the loop.
// CHECK-LABEL: func.func @sum(
// CHECK: scf.for
// CHECK-NOT: shfl
// CHECK: scf.yield %{{.*}} : f32
// CHECK-NEXT: }
// CHECK-COUNT-5: nvvm.shfl.sync bfly {{.*}} : f32
func.func @sum(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : tensor<1x1xf32>
  %n = tile.dim %a, 0 : !tile.view<?xf32>
  %total = scf.for %j = %c0 to %n step %c128 iter_args(%sum = %zero) -> (tensor<1x1xf32>) {
    %x = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x128xf32>
    %s = tile.reduce sum, %x along 1 : tensor<1x128xf32>
    %next = arith.addf %sum, %s : tensor<1x1xf32>
    scf.yield %next : tensor<1x1xf32>
  }
  tile.store %total, %b[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  return
}

// A sum that is looked at in the loop must be whole there.
// CHECK-LABEL: func.func @looked_at(
// CHECK: scf.for
// CHECK: nvvm.shfl.sync bfly {{.*}} : f32
// CHECK: scf.yield
func.func @looked_at(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant dense<0.0> : tensor<1x1xf32>
  %n = tile.dim %a, 0 : !tile.view<?xf32>
  %total = scf.for %j = %c0 to %n step %c128 iter_args(%sum = %zero) -> (tensor<1x1xf32>) {
    %x = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x128xf32>
    %s = tile.reduce sum, %x along 1 : tensor<1x128xf32>
    %next = arith.addf %sum, %s : tensor<1x1xf32>
    tile.store %next, %b[%j] : tensor<1x1xf32>, !tile.view<?xf32>
    scf.yield %next : tensor<1x1xf32>
  }
  return
}

// The running maximum and the sum that it scales: each thread has its own pair.
// CHECK-LABEL: func.func @online(
// CHECK: scf.for
// CHECK-NOT: shfl
// CHECK-NOT: nvvm.barrier0
// CHECK: scf.yield %{{.*}}, %{{.*}} : f32, f32
// CHECK-NEXT: }
// CHECK: nvvm.shfl.sync bfly {{.*}} : f32
// CHECK: math.exp
// CHECK: nvvm.shfl.sync bfly {{.*}} : f32
func.func @online(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %n = tile.dim %a, 0 : !tile.view<?xf32>
  %x = tile.load %a[%c0] size %n : !tile.view<?xf32> -> tensor<1x?xf32>
  %m = tile.reduce max, %x along 1 : tensor<1x?xf32>
  %wide = tile.broadcast %m size %n : tensor<1x1xf32> -> tensor<1x?xf32>
  %d = arith.subf %x, %wide : tensor<1x?xf32>
  %e = math.exp %d : tensor<1x?xf32>
  %s = tile.reduce sum, %e along 1 : tensor<1x?xf32>
  %y = arith.divf %m, %s : tensor<1x1xf32>
  tile.store %y, %b[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  return
}

// RUN: tile-opt %s --assign-layouts --lower-to-threads --canonicalize --cse | FileCheck %s

// A row of 64 bf16 lies in 8 threads of a warp: three exchanges, no shared memory.
// CHECK-LABEL: func.func @in_a_warp(
// CHECK-SAME: attributes {threads = 32 : i64}
// CHECK-COUNT-3: nvvm.shfl.sync bfly {{.*}} : f32
// CHECK-NOT: nvvm.barrier0
// CHECK: st.global.f32
func.func @in_a_warp(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0, %c0] : !tile.view<?x?xbf16> -> tensor<4x64xbf16>
  %w = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %s = tile.reduce sum, %w along 1 : tensor<4x64xf32>
  tile.store %s, %b[%c0] : tensor<4x1xf32>, !tile.view<?xf32>
  return
}

// A row of 1024 fp32 lies in 256 threads: five exchanges, then eight parts through shared memory.
// CHECK-LABEL: func.func @across_warps(
// CHECK-SAME: shared_bytes = 64 : i64, threads = 256 : i64
// CHECK-COUNT-5: nvvm.shfl.sync bfly {{.*}} : f32
// CHECK: nvvm.barrier0
// CHECK: @$2 st.shared.f32 [$1], $0;
// CHECK: nvvm.barrier0
// CHECK-COUNT-8: ld.shared.f32
func.func @across_warps(%a: !tile.view<?x?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0, %c0] : !tile.view<?x?xf32> -> tensor<1x1024xf32>
  %m = tile.reduce max, %x along 1 : tensor<1x1024xf32>
  tile.store %m, %b[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  return
}

// 100 columns fill 32 threads of four but for the last seven, which count as nothing.
// CHECK-LABEL: func.func @padded(
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[ZERO]] : f32
func.func @padded(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x100xf32>
  %s = tile.reduce sum, %x along 1 : tensor<1x100xf32>
  tile.store %s, %b[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  return
}

// A row's maximum and its first place: the place moves where an element is higher than all before it, and counts
// where the thread's own maximum turns out to be the row's.
// CHECK-LABEL: func.func @place(
// CHECK-COUNT-3: arith.cmpf ogt
// CHECK-NOT: arith.cmpf ogt
// CHECK: nvvm.shfl.sync bfly {{.*}} : f32
// CHECK: arith.cmpf oeq
// CHECK-NOT: arith.cmpf oeq
// CHECK: nvvm.shfl.sync bfly {{.*}} : i32
func.func @place(%a: !tile.view<?x?xf32> {tile.name = "a"}, %m: !tile.view<?xf32> {tile.name = "m", tile.written},
                 %p: !tile.view<?xi32> {tile.name = "p", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %none = arith.constant dense<2147483647> : tensor<1x128xi32>
  %x = tile.load %a[%c0, %c0] : !tile.view<?x?xf32> -> tensor<1x128xf32>
  %max = tile.reduce max, %x along 1 : tensor<1x128xf32>
  %all = tile.broadcast %max : tensor<1x1xf32> -> tensor<1x128xf32>
  %is = arith.cmpf oeq, %x, %all : tensor<1x128xf32>
  %i = tile.iota %c0 along 1 : tensor<1x128xi32>
  %at = arith.select %is, %i, %none : tensor<1x128xi1>, tensor<1x128xi32>
  %place = tile.reduce min, %at along 1 : tensor<1x128xi32>
  tile.store %max, %m[%c0] : tensor<1x1xf32>, !tile.view<?xf32>
  tile.store %place, %p[%c0] : tensor<1x1xi32>, !tile.view<?xi32>
  return
}

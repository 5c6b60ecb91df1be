// RUN: tile-opt %s --lower-to-threads --canonicalize --cse | FileCheck %s

// A row of 64 bf16 lies in 8 threads of a warp: three exchanges, no shared memory.
// CHECK-LABEL: func.func @in_a_warp(
// CHECK-SAME: shared_bytes = 0 : i64, threads = 32 : i64
// CHECK-COUNT-3: llvm.nvvm.shfl.sync.bfly.f32
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
// CHECK-COUNT-5: llvm.nvvm.shfl.sync.bfly.f32
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

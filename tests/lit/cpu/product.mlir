// RUN: tile-opt %s --lower-to-vector="lanes=16 registers=32" --cse | FileCheck %s
// RUN: tile-opt %s --lower-to-vector="lanes=16 registers=32 bf16-dot=true" --cse | FileCheck %s --check-prefix=DOT
// RUN: tile-opt %s --lower-to-vector="lanes=16 registers=32 bf16-dot=true tiles=true" --cse | FileCheck %s --check-prefix=TILES
// RUN: tile-opt %s --lower-to-vector="lanes=8 registers=16" --cse | FileCheck %s --check-prefix=AVX2

// Both operands are contiguous along the contracted axis: the right one is transposed in registers, the left one is
// copied. Sixteen accumulators stay in registers over a step of the contracted axis.
// CHECK-LABEL: func.func @products
// CHECK-COUNT-64: vector.shuffle
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-16: vector.fma
// CHECK-NOT: vector.fma
// CHECK: scf.yield

// DOT-LABEL: func.func @products
// DOT: vector.bitcast {{.*}} : vector<32xbf16> to vector<16xi32>
// DOT-COUNT-16: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// DOT-NOT: call_intrinsic

// Four registers of sums, and two of either operand. The last rows may need two registers of sums only.
// TILES-LABEL: func.func @products
// TILES: llvm.call_intrinsic "llvm.x86.ldtilecfg"
// TILES-COUNT-64: vector.shuffle
// TILES-COUNT-4: llvm.call_intrinsic "llvm.x86.tilezero"
// TILES: scf.for
// TILES-COUNT-4: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// TILES-COUNT-4: llvm.call_intrinsic "llvm.x86.tilestored64"
// TILES: } else {
// TILES-COUNT-2: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// TILES-COUNT-2: llvm.call_intrinsic "llvm.x86.tilestored64"
// TILES: llvm.call_intrinsic "llvm.x86.tilerelease"
// TILES-NOT: dpbf16ps.512
// TILES: return

// AVX2-LABEL: func.func @products
// AVX2-COUNT-24: vector.shuffle
// AVX2-COUNT-12: vector.fma
// AVX2-NOT: vector.fma
func.func @products(%x: !tile.view<?x?xbf16> {tile.name = "x"}, %w: !tile.view<?x?xbf16> {tile.name = "w"},
                    %z: !tile.view<?x?xf32> {tile.name = "z"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %t = tile.contract %x[%c0] contracting 1, %w[%c0] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<16x64xf32>
  tile.store %t, %z[%c0, %c0] : tensor<16x64xf32>, !tile.view<?x?xf32>
  return
}

// A part of the contracted axis: rows of w, and columns of x, from a multiple of 64 on.
// CHECK-LABEL: func.func @part
// DOT-LABEL: func.func @part
// AVX2-LABEL: func.func @part
// CHECK: %[[STEPS:.*]] = arith.divui %{{.*}}, %c64
// CHECK: %[[PARTS:.*]] = arith.muli %[[STEPS]], %{{.*}}
// CHECK: %[[STEP:.*]] = arith.divui %[[PARTS]], %c3
// CHECK: arith.muli %[[STEP]], %c64
func.func @part(%x: !tile.view<?x?xbf16> {tile.name = "x"}, %w: !tile.view<?x?xbf16> {tile.name = "w"},
                %z: !tile.view<?x?xf32> {tile.name = "z"}, %p: index {tile.name = "p"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %t = tile.contract %x[%c0] contracting 1, %w[%c0] contracting 0 part %p of 3
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<16x64xf32>
  tile.store %t, %z[%c0, %c0] : tensor<16x64xf32>, !tile.view<?x?xf32>
  return
}

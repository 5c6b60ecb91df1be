// RUN: tile-opt %s --expand-math=scales | FileCheck %s

// The exponential of a difference takes powers of two apart, a register at a time. Others are as without.
// CHECK-LABEL: func.func @difference
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"
// CHECK-NOT: llvm.call_intrinsic
// CHECK: return
func.func @difference(%v: vector<32xf32>) -> vector<32xf32> {
  %e = math.exp %v fastmath<afn> : vector<32xf32>
  return %e : vector<32xf32>
}

// CHECK-LABEL: func.func @register
// CHECK: %[[T:.*]] = arith.mulf
// CHECK: %[[F:.*]] = llvm.call_intrinsic "llvm.x86.avx512.mask.reduce.ps.512"(%[[T]]
// CHECK: %[[P:.*]] = vector.fma %{{.*}}, %[[F]]
// CHECK: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"(%{{.*}}, %[[T]]
func.func @register(%v: vector<16xf32>) -> vector<16xf32> {
  %e = math.exp %v fastmath<afn> : vector<16xf32>
  return %e : vector<16xf32>
}

// CHECK-LABEL: func.func @others
// CHECK-NOT: llvm.call_intrinsic
// CHECK: return
func.func @others(%v: vector<16xf32>, %w: vector<8xf32>) -> (vector<16xf32>, vector<8xf32>) {
  %e = math.exp %v : vector<16xf32>
  %f = math.exp %w fastmath<afn> : vector<8xf32>
  return %e, %f : vector<16xf32>, vector<8xf32>
}

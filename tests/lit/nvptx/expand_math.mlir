// RUN: tile-opt %s --expand-math-nvptx | FileCheck %s

// CHECK-LABEL: func.func @exp(
// CHECK-SAME: %[[X:.*]]: f32
// CHECK: %[[Y:.*]] = arith.mulf %[[X]], %[[LOG2E:.*]] : f32
// CHECK: %[[MINUS:.*]] = arith.negf %[[Y]]
// CHECK: %[[REST:.*]] = math.fma %[[X]], %[[LOG2E]], %[[MINUS]]
// CHECK: arith.cmpf olt
// CHECK: %[[POWER:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[Y]])
// CHECK: math.fma %[[POWER]], %{{.*}}, %[[POWER]]
func.func @exp(%x: f32) -> f32 {
  %y = math.exp %x : f32
  return %y : f32
}

// CHECK-LABEL: func.func @others(
// CHECK-NOT: math.log1p
// CHECK-NOT: math.tanh
// CHECK-NOT: math.erf
// CHECK: llvm.nvvm.rsqrt.approx.f
// CHECK: math.sqrt
func.func @others(%x: f32) -> f32 {
  %a = math.log1p %x : f32
  %b = math.tanh %a : f32
  %c = math.erf %b : f32
  %d = math.expm1 %c : f32
  %e = math.rsqrt %d : f32
  %f = math.sqrt %e : f32
  return %f : f32
}

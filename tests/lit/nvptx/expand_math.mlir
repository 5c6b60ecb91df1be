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

// A difference needs no correction.
// CHECK-LABEL: func.func @difference(
// CHECK-SAME: %[[X:.*]]: f32, %[[Y:.*]]: f32
// CHECK: %[[D:.*]] = arith.subf %[[X]], %[[Y]]
// CHECK: %[[POWER:.*]] = arith.mulf %[[D]]
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[POWER]])
// CHECK-NOT: math.fma
func.func @difference(%x: f32, %y: f32) -> f32 {
  %d = arith.subf %x, %y : f32
  %e = math.exp %d : f32
  return %e : f32
}

// CHECK-LABEL: func.func @contracted(
// CHECK-SAME: %[[X:.*]]: f32, %[[Y:.*]]: f32
// CHECK: %[[SUBTRACTED:.*]] = arith.mulf %[[Y]], %{{.*}} : f32
// CHECK: %[[POWER:.*]] = math.fma %[[X]], %{{.*}}, %[[SUBTRACTED]]
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[POWER]])
func.func @contracted(%x: f32, %y: f32) -> f32 {
  %d = arith.subf %x, %y : f32
  %e = math.exp %d fastmath<contract> : f32
  return %e : f32
}

// A scalar factor of the minuend goes into the multiplication that is there anyway.
// CHECK-LABEL: func.func @product(
// CHECK-SAME: %[[X:.*]]: f32, %[[Y:.*]]: f32, %[[SCALE:.*]]: f32
// CHECK: %[[NUMBER:.*]] = math.absf %[[X]]
// CHECK-DAG: %[[SUBTRACTED:.*]] = arith.mulf %[[Y]], %{{.*}} : f32
// CHECK-DAG: %[[FACTOR:.*]] = arith.mulf %[[SCALE]], %{{.*}} : f32
// CHECK: %[[POWER:.*]] = math.fma %[[NUMBER]], %[[FACTOR]], %[[SUBTRACTED]]
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[POWER]])
func.func @product(%x: f32, %y: f32, %scale: f32) -> f32 {
  %n = math.absf %x : f32
  %m = arith.mulf %n, %scale : f32
  %d = arith.subf %m, %y : f32
  %e = math.exp %d fastmath<contract> : f32
  return %e : f32
}

// CHECK-LABEL: func.func @scaled(
// CHECK-SAME: %[[X:.*]]: f32, %[[Y:.*]]: f32
// CHECK-DAG: %[[N:.*]] = arith.constant -8.000000e+00 : f32
// CHECK: %[[REST:.*]] = math.fma %[[Y]], %{{.*}}, %[[N]] : f32
// CHECK: %[[POWER:.*]] = math.fma %[[X]], %{{.*}}, %[[REST]]
// CHECK: %[[RESULT:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[POWER]])
// CHECK: return %[[RESULT]]
func.func @scaled(%x: f32, %y: f32) -> f32 {
  %unit = arith.constant 3.906250e-03 : f32
  %d = arith.subf %x, %y : f32
  %e = math.exp %d fastmath<contract> : f32
  %s = arith.mulf %unit, %e : f32
  return %s : f32
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

// CHECK-LABEL: func.func @tanh(
// CHECK: %[[TWO_LOG2E:.*]] = arith.constant 2.885390e+00 : f32
// CHECK: %[[POWER:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
// CHECK: %[[SUM:.*]] = arith.addf %[[POWER]]
// CHECK: llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.f"(%[[SUM]])
// CHECK: arith.select
// CHECK-NOT: arith.divf
func.func @tanh(%x: f32) -> f32 {
  %y = math.tanh %x : f32
  return %y : f32
}

// Its series near 0, and nothing is divided by what may be 0 there.
// CHECK-LABEL: func.func @expm1(
// CHECK-SAME: %[[X:.*]]: f32
// CHECK-COUNT-6: math.fma
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK: %[[SMALL:.*]] = math.fma %[[SQUARE]], %{{.*}}, %[[X]]
// CHECK: llvm.nvvm.ex2.approx.ftz.f
// CHECK: arith.subf
// CHECK: arith.select %{{.*}}, %[[SMALL]]
// CHECK-NOT: arith.divf
func.func @expm1(%x: f32) -> f32 {
  %y = math.expm1 %x : f32
  return %y : f32
}

// One polynomial of x², without a division or a case, that ends at ±1; a NaN stays one.
// CHECK-LABEL: func.func @erf(
// CHECK-SAME: %[[X:.*]]: f32
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK: arith.minimumf %[[SQUARE]]
// CHECK-COUNT-15: math.fma
// CHECK-NOT: math.fma
// CHECK: %[[Y:.*]] = arith.mulf %[[X]]
// CHECK: arith.minimumf %[[Y]]
// CHECK: arith.maximumf
// CHECK-NOT: arith.divf
func.func @erf(%x: f32) -> f32 {
  %y = math.erf %x : f32
  return %y : f32
}

// 1 + erf x is erfc(-x): its power of two, or what that lacks of 2.
// CHECK-LABEL: func.func @one_plus_erf(
// CHECK-SAME: %[[X:.*]]: f32
// CHECK: %[[SIZE:.*]] = math.absf %[[X]]
// CHECK-COUNT-7: math.fma
// CHECK-NOT: math.fma
// CHECK: %[[REST:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
// CHECK: %[[NEGATIVE:.*]] = arith.cmpf olt, %[[X]]
// CHECK: %[[MOST:.*]] = arith.subf %{{.*}}, %[[REST]]
// CHECK: arith.select %[[NEGATIVE]], %[[REST]], %[[MOST]]
func.func @one_plus_erf(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %y = math.erf %x : f32
  %z = arith.addf %y, %one : f32
  return %z : f32
}

// Numbers that were bf16 in memory, and others.
// CHECK-LABEL: func.func @log(
// CHECK: llvm.call_intrinsic "llvm.nvvm.lg2.approx.ftz.f"
// CHECK-NOT: llvm.nvvm.lg2
func.func @log(%bits: i32, %x: f32) -> (f32, f32) {
  %c16 = arith.constant 16 : i32
  %high = arith.shli %bits, %c16 : i32
  %wide = arith.bitcast %high : i32 to f32
  %y = math.log %wide : f32
  %z = math.log %x : f32
  return %y, %z : f32, f32
}

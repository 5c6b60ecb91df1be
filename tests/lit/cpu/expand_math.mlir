// RUN: tile-opt %s --expand-math | FileCheck %s

// CHECK: func.func private @log1pf(f32) -> f32
// CHECK-LABEL: func.func @functions
// CHECK: %[[L:.*]] = call @log1pf(%arg0) : (f32) -> f32
// CHECK: math.sqrt %[[L]] : f32
// CHECK-NOT: math.exp
// CHECK: return
func.func @functions(%x: f32, %v: vector<8xf32>) -> (f32, vector<8xf32>) {
  %l = math.log1p %x : f32
  %s = math.sqrt %l : f32
  %e = math.exp %v : vector<8xf32>
  return %s, %e : f32, vector<8xf32>
}

// An exponential as it is: two steps for 2^n. Of a difference that is not positive: one.
// CHECK-LABEL: func.func @exponentials
// CHECK: %[[TWICE:.*]] = arith.mulf
// CHECK: %[[E:.*]] = arith.mulf %[[TWICE]]
// CHECK: arith.maximumf %[[E]]
// CHECK-NOT: arith.mulf
// CHECK: %[[F:.*]] = arith.mulf
// CHECK: return %{{.*}}, %[[F]]
func.func @exponentials(%v: vector<8xf32>) -> (vector<8xf32>, vector<8xf32>) {
  %e = math.exp %v : vector<8xf32>
  %m = arith.maximumf %e, %v : vector<8xf32>
  %f = math.exp %v fastmath<afn> : vector<8xf32>
  return %m, %f : vector<8xf32>, vector<8xf32>
}

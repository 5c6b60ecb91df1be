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

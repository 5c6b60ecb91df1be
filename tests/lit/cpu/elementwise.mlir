// RUN: tile-opt %s --split-input-file --lower-to-vector="lanes=8" --cse | FileCheck %s

// A row of 64 numbers is eight strips. Those that lie inside all views have no masks; in the others, what lies outside
// is masked off.
// CHECK-LABEL: func.func @vector_add(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr {llvm.noalias})
// CHECK: %[[STRIPS:.*]] = arith.divui %{{.*}}, %c8
// CHECK: %[[WHOLE:.*]] = arith.muli %[[STRIPS]], %c8
// CHECK: scf.for %{{.*}} = %c0 to %[[WHOLE]] step %c8
// CHECK-NOT: masked
// CHECK: llvm.store {{.*}} : vector<8xf32>
// CHECK: scf.for %{{.*}} = %[[WHOLE]] to %c64 step %c8
// CHECK: %[[X:.*]] = llvm.intr.masked.load {{.*}} -> vector<8xf32>
// CHECK: %[[Y:.*]] = llvm.intr.masked.load {{.*}} -> vector<8xf32>
// CHECK: %[[Z:.*]] = arith.addf %[[X]], %[[Y]] : vector<8xf32>
// CHECK: llvm.intr.masked.store %[[Z]]
// CHECK-NOT: llvm.store
func.func @vector_add(%x: !tile.view<?xf32> {tile.name = "x"}, %y: !tile.view<?xf32> {tile.name = "y"},
                      %z: !tile.view<?xf32> {tile.name = "z"}) attributes {tile.kernel} {
  %p = tile.program_id 0
  %c64 = arith.constant 64 : index
  %j = arith.muli %p, %c64 : index
  %a = tile.load %x[%j] : !tile.view<?xf32> -> tensor<1x64xf32>
  %b = tile.load %y[%j] : !tile.view<?xf32> -> tensor<1x64xf32>
  %c = arith.addf %a, %b : tensor<1x64xf32>
  tile.store %c, %z[%j] : tensor<1x64xf32>, !tile.view<?xf32>
  return
}

// -----

// Two phases in each row: the sum waits for the maximum. The number that a row yields is stored after both.
// CHECK-LABEL: func.func @max_then_sum
// CHECK: scf.for
// CHECK: %[[W:.*]]:2 = scf.for {{.*}} iter_args
// CHECK: arith.cmpf ogt
// CHECK: scf.yield
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[W]]#0, %{{.*}} = %[[W]]#1)
// CHECK: arith.cmpf ogt
// CHECK: scf.yield
// CHECK: vector.shuffle
// CHECK: %[[T:.*]] = scf.for {{.*}} iter_args
// CHECK: math.exp
// CHECK: %[[S:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[T]])
// CHECK: arith.subf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: llvm.intr.masked.store {{.*}} : vector<1xf32>
func.func @max_then_sum(%x: !tile.view<?x?xf32> {tile.name = "x"}, %s: !tile.view<?xf32> {tile.name = "s"})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] : !tile.view<?x?xf32> -> tensor<4x64xf32>
  %m = tile.reduce max, %a along 1 : tensor<4x64xf32>
  %mm = tile.broadcast %m : tensor<4x1xf32> -> tensor<4x64xf32>
  %d = arith.subf %a, %mm : tensor<4x64xf32>
  %e = math.exp %d : tensor<4x64xf32>
  %t = tile.reduce sum, %e along 1 : tensor<4x64xf32>
  tile.store %t, %s[%c0] : tensor<4x1xf32>, !tile.view<?xf32>
  return
}

// -----

// A sum over the rows lives in scratch, and what needs it comes in a second nest.
// CHECK-LABEL: func.func @column_sums
// CHECK: llvm.store
// CHECK: scf.for {{.*}} to %c4
// CHECK: llvm.load {{.*}} -> vector<8xf32>
// CHECK: arith.addf
// CHECK: llvm.store
// CHECK: scf.for
// CHECK: arith.mulf
// CHECK: llvm.intr.masked.store
func.func @column_sums(%x: !tile.view<?x?xf32> {tile.name = "x"}, %s: !tile.view<?xf32> {tile.name = "s"})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] : !tile.view<?x?xf32> -> tensor<4x64xf32>
  %t = tile.reduce sum, %a along 0 : tensor<4x64xf32>
  %u = arith.mulf %t, %t : tensor<1x64xf32>
  tile.store %u, %s[%c0] : tensor<1x64xf32>, !tile.view<?xf32>
  return
}

// -----

// bf16 is widened by a shift and narrowed by adding half of what is dropped; no masked access is of bf16 itself.
// CHECK-LABEL: func.func @bf16
// CHECK: llvm.intr.masked.load {{.*}} -> vector<8xi16>
// CHECK: arith.shli
// CHECK: arith.cmpf uno
// CHECK: llvm.intr.masked.store {{.*}} : vector<8xi16>
func.func @bf16(%x: !tile.view<?xbf16> {tile.name = "x"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0] : !tile.view<?xbf16> -> tensor<1x64xbf16>
  %w = arith.extf %a : tensor<1x64xbf16> to tensor<1x64xf32>
  %y = arith.mulf %w, %w : tensor<1x64xf32>
  %n = arith.truncf %y : tensor<1x64xf32> to tensor<1x64xbf16>
  tile.store %n, %x[%c0] : tensor<1x64xbf16>, !tile.view<?xbf16>
  return
}

// -----

// A carried tile is a buffer that the loop's body reads and, at its end, overwrites.
// CHECK-LABEL: func.func @carried
// CHECK: scf.for {{.*}} to %{{.*}} step %{{[^ ]*}} {
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.addf
func.func @carried(%x: !tile.view<?x?xf32> {tile.name = "x"}, %s: !tile.view<?xf32> {tile.name = "s"})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %n = tile.dim %x, 1 : !tile.view<?x?xf32>
  %zero = arith.constant dense<0.0> : tensor<4x1xf32>
  %sum = scf.for %j = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<4x1xf32>) {
    %a = tile.load %x[%c0, %j] : !tile.view<?x?xf32> -> tensor<4x64xf32>
    %t = tile.reduce sum, %a along 1 : tensor<4x64xf32>
    %next = arith.addf %acc, %t : tensor<4x1xf32>
    scf.yield %next : tensor<4x1xf32>
  }
  tile.store %sum, %s[%c0] : tensor<4x1xf32>, !tile.view<?xf32>
  return
}

// -----

// What a loop stores is stored in its body, also when it carries nothing.
// CHECK-LABEL: func.func @store_in_loop
// CHECK: scf.for %[[J:.*]] = {{.*}} step
// CHECK:   llvm.intr.masked.store
func.func @store_in_loop(%x: !tile.view<?x?xf32> {tile.name = "x"}, %i: index {tile.name = "i"},
                         %n: index {tile.name = "n"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  scf.for %j = %c0 to %n step %c16 {
    %0 = tile.load %x[%i, %j] : !tile.view<?x?xf32> -> tensor<1x16xf32>
    %1 = math.sqrt %0 : tensor<1x16xf32>
    tile.store %1, %x[%i, %j] : tensor<1x16xf32>, !tile.view<?x?xf32>
  }
  return
}

// -----

// What a guarded block puts into scratch is not there for those behind it: the zero is stored twice.
// CHECK-LABEL: func.func @constant_of_two_blocks
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : vector<1xi32>
// CHECK: scf.for
// CHECK: llvm.intr.masked.store
// CHECK-NEXT: {{^ *}}}
// CHECK-NOT: scf.for
// CHECK: llvm.store {{.*}} : vector<1xi32>
// CHECK: scf.for
func.func @constant_of_two_blocks(%y: !tile.view<?xi32> {tile.name = "y", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tile.dim %y, 0 : !tile.view<?xi32>
  %p = tile.program_id 0
  %zero = arith.constant dense<0> : tensor<1x1xi32>
  %one = arith.constant dense<1> : tensor<1x1xi32>
  %first = arith.cmpi eq, %p, %c0 : index
  scf.if %first {
    %s = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero) -> (tensor<1x1xi32>) {
      %b = arith.addi %a, %one : tensor<1x1xi32>
      scf.yield %b : tensor<1x1xi32>
    }
    tile.store %s, %y[%c0] : tensor<1x1xi32>, !tile.view<?xi32>
  }
  %t = scf.for %i = %c0 to %p step %c1 iter_args(%a = %zero) -> (tensor<1x1xi32>) {
    %b = arith.addi %a, %one : tensor<1x1xi32>
    scf.yield %b : tensor<1x1xi32>
  }
  tile.store %t, %y[%p] : tensor<1x1xi32>, !tile.view<?xi32>
  return
}

// -----

// The upper half of a product of unsigned numbers, a strip at a time.
// CHECK-LABEL: func.func @upper_half
// CHECK: %{{.*}}, %[[HIGH:.*]] = arith.mului_extended %{{.*}}, %{{.*}} : vector<8xi32>
// CHECK: arith.shrui %[[HIGH]], %{{.*}} : vector<8xi32>
func.func @upper_half(%x: !tile.view<?xi32> {tile.name = "x"}, %y: !tile.view<?xi32> {tile.name = "y", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %three = arith.constant dense<3> : tensor<1x64xi32>
  %a = tile.load %x[%c0] : !tile.view<?xi32> -> tensor<1x64xi32>
  %h = tile.mul_high %a, %a : tensor<1x64xi32>
  %z = arith.shrui %h, %three : tensor<1x64xi32>
  tile.store %z, %y[%c0] : tensor<1x64xi32>, !tile.view<?xi32>
  return
}

// In the interior of a streamed row four vectors are side by side; which of two zeros is the larger is not asked.
// CHECK-LABEL: func.func @interior
// CHECK: scf.for {{.*}} step %c32
// CHECK: arith.cmpf ogt, {{.*}} : vector<32xf32>
// CHECK-LABEL: func.func @end
// CHECK: scf.for {{.*}} step %c8
// CHECK: arith.cmpf ogt, {{.*}} : vector<8xf32>
func.func @interior(%x: !tile.view<?x?xf32> {tile.name = "x"}, %r: !tile.view<?xi32> {tile.name = "r"},
                    %m: !tile.view<?xf32> {tile.name = "m"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %row = tile.load %r[%c0] : !tile.view<?xi32> -> tensor<1x1xi32>
  %t = tile.load_rows %x[%row, %c0] {interior} : !tile.view<?x?xf32>, tensor<1x1xi32> -> tensor<1x1024xf32>
  %most = tile.reduce max, %t along 1 : tensor<1x1024xf32>
  tile.store_rows %most, %m[%row] : tensor<1x1xf32>, !tile.view<?xf32>, tensor<1x1xi32>
  return
}
func.func @end(%x: !tile.view<?x?xf32> {tile.name = "x"}, %r: !tile.view<?xi32> {tile.name = "r"},
               %m: !tile.view<?xf32> {tile.name = "m"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %row = tile.load %r[%c0] : !tile.view<?xi32> -> tensor<1x1xi32>
  %t = tile.load_rows %x[%row, %c0] : !tile.view<?x?xf32>, tensor<1x1xi32> -> tensor<1x1024xf32>
  %most = tile.reduce max, %t along 1 : tensor<1x1024xf32>
  tile.store_rows %most, %m[%row] : tensor<1x1xf32>, !tile.view<?xf32>, tensor<1x1xi32>
  return
}

// RUN: tile-opt %s --assign-layouts --lower-to-threads --canonicalize --cse | FileCheck %s

// CHECK: llvm.mlir.global external @shared_memory() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>

// A vector is its address and its size; 128 columns are four for each of 32 threads.
// CHECK-LABEL: func.func @twice(
// CHECK-SAME: %[[A:.*]]: i64, %[[SIZE:.*]]: i64, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-SAME: attributes {threads = 32 : i64}
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: %[[X:.*]]:4 = scf.if
// CHECK: @$5 ld.global.v4.f32 {$0, $1, $2, $3}, [$4];
// CHECK: } else {
// CHECK-COUNT-4: ld.global.f32
// CHECK: arith.addf %[[X]]#0, %[[X]]#0 : f32
// CHECK: arith.addf %[[X]]#3, %[[X]]#3 : f32
// CHECK: scf.if
// CHECK: st.global.v4.f32
// CHECK: } else {
// CHECK-COUNT-4: st.global.f32
func.func @twice(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %j = arith.muli %p, %c128 : index
  %x = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x128xf32>
  %y = arith.addf %x, %x : tensor<1x128xf32>
  tile.store %y, %b[%j] : tensor<1x128xf32>, !tile.view<?xf32>
  return
}

// A matrix brings its row stride. Eight bf16 are one access; a bf16 is widened by a shift, two fp32 are rounded at
// once.
// CHECK-LABEL: func.func @rounded(
// CHECK-SAME: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64)
// CHECK: ld.global.v4.u32
// CHECK: arith.shli
// CHECK: cvt.rn.bf16x2.f32 $0, $1, $2;
// CHECK: st.global.v4.u32
func.func @rounded(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0, %c0] : !tile.view<?x?xbf16> -> tensor<4x64xbf16>
  %w = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %y = arith.mulf %w, %w : tensor<4x64xf32>
  %n = arith.truncf %y : tensor<4x64xf32> to tensor<4x64xbf16>
  tile.store %n, %b[%c0, %c0] : tensor<4x64xbf16>, !tile.view<?x?xbf16>
  return
}

// The two numbers of a pair that is rounded are read back from its word.
// CHECK-LABEL: func.func @rounded_and_summed(
// CHECK: %[[PAIR:.*]] = llvm.inline_asm {{.*}}"cvt.rn.bf16x2.f32 $0, $1, $2;"
// CHECK: arith.shrui %[[PAIR]]
// CHECK-NOT: arith.truncf
// CHECK: st.global.v4.u32
func.func @rounded_and_summed(%a: !tile.view<?x?xf32> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b", tile.written},
                              %s: !tile.view<?xf32> {tile.name = "s", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0, %c0] : !tile.view<?x?xf32> -> tensor<4x64xf32>
  %n = arith.truncf %x : tensor<4x64xf32> to tensor<4x64xbf16>
  %w = arith.extf %n : tensor<4x64xbf16> to tensor<4x64xf32>
  %sum = tile.reduce sum, %w along 1 : tensor<4x64xf32>
  tile.store %n, %b[%c0, %c0] : tensor<4x64xbf16>, !tile.view<?x?xbf16>
  tile.store %sum, %s[%c0] : tensor<4x1xf32>, !tile.view<?xf32>
  return
}

// Positions are compared with a size: each register's with what is left of it behind the thread's first, which is
// computed once.
// CHECK-LABEL: func.func @inside(
// CHECK: %[[SIZE:.*]] = arith.index_cast %{{.*}} : index to i32
// CHECK: %[[LEFT:.*]] = arith.subi %[[SIZE]]
// CHECK: arith.cmpi sgt, %[[LEFT]], %{{.*}} : i32
// CHECK-NOT: arith.subi
// CHECK: st.global
func.func @inside(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<1x128xf32>
  %one = arith.constant dense<1.0> : tensor<1x128xf32>
  %n = tile.dim %a, 0 : !tile.view<?xf32>
  %one_size = tile.splat %n : index -> tensor<1x1xi32>
  %size = tile.broadcast %one_size : tensor<1x1xi32> -> tensor<1x128xi32>
  %at = tile.iota %c0 along 1 : tensor<1x128xi32>
  %in = arith.cmpi slt, %at, %size : tensor<1x128xi32>
  %y = arith.select %in, %one, %zero : tensor<1x128xi1>, tensor<1x128xf32>
  tile.store %y, %b[%c0] : tensor<1x128xf32>, !tile.view<?xf32>
  return
}

// What one thread stored, another may load: a barrier stands between. The store itself is on the same elements as the
// load before it, and needs none.
// CHECK-LABEL: func.func @in_place(
// CHECK: ld.global
// CHECK-NOT: nvvm.barrier0
// CHECK: st.global
// CHECK: nvvm.barrier0
// CHECK: ld.global
func.func @in_place(%a: !tile.view<?xf32> {tile.name = "a", tile.written}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x128xf32>
  %y = arith.addf %x, %x : tensor<1x128xf32>
  tile.store %y, %a[%c0] : tensor<1x128xf32>, !tile.view<?xf32>
  %z = tile.load %a[%c1] : !tile.view<?xf32> -> tensor<1x128xf32>
  tile.store %z, %b[%c0] : tensor<1x128xf32>, !tile.view<?xf32>
  return
}

// Where iterations touch what other threads touched in the one before, or ahead of the loop, barriers stand ahead of the
// loop and at its end.
// CHECK-LABEL: func.func @loop_behind_a_store(
// CHECK: st.global
// CHECK: nvvm.barrier0
// CHECK: scf.for
// CHECK: ld.global
// CHECK: nvvm.barrier0
// CHECK: st.global
// CHECK: nvvm.barrier0
// CHECK-NOT: nvvm.barrier0
func.func @loop_behind_a_store(%a: !tile.view<?xf32> {tile.name = "a", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : tensor<1x128xf32>
  tile.store %zero, %a[%c0] : tensor<1x128xf32>, !tile.view<?xf32>
  scf.for %j = %c1 to %c8 step %c1 {
    %x = tile.load %a[%j] : !tile.view<?xf32> -> tensor<1x128xf32>
    tile.store %x, %a[%c0] : tensor<1x128xf32>, !tile.view<?xf32>
  }
  return
}

// The upper half of a product of unsigned numbers, an element at a time.
// CHECK-LABEL: func.func @upper_half(
// CHECK: arith.shrui
// CHECK: %{{.*}}, %[[HIGH:.*]] = arith.mului_extended %{{.*}}, %{{.*}} : i32
// CHECK: arith.xori %[[HIGH]]
func.func @upper_half(%a: !tile.view<?xi32> {tile.name = "a"}, %b: !tile.view<?xi32> {tile.name = "b", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %three = arith.constant dense<3> : tensor<1x128xi32>
  %x = tile.load %a[%c0] : !tile.view<?xi32> -> tensor<1x128xi32>
  %y = arith.shrui %x, %three : tensor<1x128xi32>
  %h = tile.mul_high %x, %y : tensor<1x128xi32>
  %z = arith.xori %h, %x : tensor<1x128xi32>
  tile.store %z, %b[%c0] : tensor<1x128xi32>, !tile.view<?xi32>
  return
}

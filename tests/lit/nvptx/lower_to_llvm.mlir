// RUN: tile-opt %s --lower-to-llvm | FileCheck %s

// Everything in one conversion: no cast is left.
// CHECK-LABEL: llvm.func @count
// CHECK-SAME: (%[[N:.*]]: i64, %[[X:.*]]: f32)
func.func @count(%n: i64, %x: f32) attributes {threads = 32 : i64} {
  // CHECK: llvm.fmul %[[X]], %[[X]] : f32
  // CHECK: llvm.icmp "sgt" %[[N]], %{{.*}} : i64
  // CHECK: llvm.cond_br
  // CHECK: llvm.intr.sqrt
  // CHECK-NOT: unrealized_conversion_cast
  // CHECK: llvm.return
  %c0 = arith.constant 0 : index
  %end = arith.index_cast %n : i64 to index
  %y = arith.mulf %x, %x : f32
  %more = arith.cmpi slt, %c0, %end : index
  cf.cond_br %more, ^some, ^none
^some:
  %z = math.sqrt %y : f32
  llvm.inline_asm has_side_effects "// $0", "f" %z : (f32) -> ()
  cf.br ^none
^none:
  return
}

// An operation of NVVM that LLVM has an intrinsic for stays; of others the PTX is left.
// CHECK-LABEL: llvm.func @instructions
func.func @instructions() attributes {threads = 128 : i64} {
  // CHECK: nvvm.cp.async.commit.group
  nvvm.cp.async.commit.group
  // CHECK-NOT: nvvm.wgmma.fence
  // CHECK: llvm.inline_asm has_side_effects {{.*}}"wgmma.fence.sync.aligned;"
  nvvm.wgmma.fence.aligned
  return
}

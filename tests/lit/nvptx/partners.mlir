// RUN: tile-opt %s --assign-layouts --lower-to-threads | FileCheck %s

// Sums of four CTAs of a cluster: each of four threads tells one CTA, where a barrier counts the bytes; what is kept comes
// ahead of what warps exchange.
// CHECK-LABEL: func.func @sum
// CHECK-SAME: cluster_ctas = 4
// CHECK-SAME: shared_bytes = 4192
func.func @sum(%x: !tile.view<?xf32> {tile.name = "x"}, %y: !tile.view<?xf32> {tile.name = "y", tile.written})
    attributes {tile.grid = [array<i64: 0, 0, 4096>], tile.kernel, tile.partners = 4 : i64} {
  %c0 = arith.constant 0 : index
  %c1024 = arith.constant 1024 : index
  // CHECK: scf.if
  // CHECK: nvvm.mbarrier.init.shared %{{.*}}, %c1_i32
  // CHECK: nvvm.fence.mbarrier.init
  // CHECK: nvvm.mbarrier.arrive.expect_tx.shared %{{.*}}, %c16_i32
  // CHECK: nvvm.cluster.arrive.relaxed
  // CHECK: nvvm.read.ptx.sreg.ctaid.y
  %p = tile.partner
  %first = arith.muli %p, %c1024 : index
  %kept = tile.on_chip 1024 : !tile.view<?xf32>
  %all = tile.on_chip 4 : !tile.view<?xf32>
  %a = tile.load %x[%first] : !tile.view<?xf32> -> tensor<1x1024xf32>
  // CHECK: st.shared.v4
  tile.store %a, %kept[%c0] {interior} : tensor<1x1024xf32>, !tile.view<?xf32>
  %s = tile.reduce sum, %a along 1 : tensor<1x1024xf32>
  // CHECK: nvvm.barrier0
  // CHECK: nvvm.cluster.wait
  // CHECK: %[[TELLS:.*]] = arith.cmpi slt, %{{.*}}, %c4_i32
  // CHECK: arith.minsi
  // CHECK: %[[THERE:.*]] = llvm.inline_asm {{.*}}mapa.shared::cluster
  // CHECK: %[[BARRIER:.*]] = llvm.inline_asm {{.*}}mapa.shared::cluster
  // CHECK: st.async.shared::cluster{{.*}}.f32 {{.*}} %{{.*}}, %[[THERE]], %[[BARRIER]], %[[TELLS]]
  // CHECK: nvvm.mbarrier.try_wait.parity.shared
  tile.exchange %s to %all : tensor<1x1xf32> to !tile.view<?xf32>
  // CHECK: ld.shared
  %sums = tile.load %all[%c0] : !tile.view<?xf32> -> tensor<1x4xf32>
  %t = tile.reduce sum, %sums along 1 : tensor<1x4xf32>
  %b = tile.load %kept[%c0] {interior} : !tile.view<?xf32> -> tensor<1x1024xf32>
  %ts = tile.broadcast %t : tensor<1x1xf32> -> tensor<1x1024xf32>
  %q = arith.divf %b, %ts : tensor<1x1024xf32>
  tile.store %q, %y[%first] : tensor<1x1024xf32>, !tile.view<?xf32>
  return
}

// In a loop places are used again: exchanges lie between barriers of the cluster.
// CHECK-LABEL: func.func @again
// CHECK-NOT: mbarrier
// CHECK: scf.for
// CHECK: nvvm.cluster.arrive{{$}}
// CHECK: st.shared::cluster.f32
// CHECK: nvvm.cluster.arrive{{$}}
func.func @again(%x: !tile.view<?xf32> {tile.name = "x"}, %y: !tile.view<?xf32> {tile.name = "y", tile.written})
    attributes {tile.grid = [array<i64: 0, 0, 4096>], tile.kernel, tile.partners = 4 : i64} {
  %c0 = arith.constant 0 : index
  %c1024 = arith.constant 1024 : index
  %c4096 = arith.constant 4096 : index
  %all = tile.on_chip 4 : !tile.view<?xf32>
  scf.for %c = %c0 to %c4096 step %c1024 {
    %a = tile.load %x[%c] : !tile.view<?xf32> -> tensor<1x1024xf32>
    %s = tile.reduce sum, %a along 1 : tensor<1x1024xf32>
    tile.exchange %s to %all : tensor<1x1xf32> to !tile.view<?xf32>
    %sums = tile.load %all[%c0] : !tile.view<?xf32> -> tensor<1x4xf32>
    %t = tile.reduce sum, %sums along 1 : tensor<1x4xf32>
    tile.store %t, %y[%c] : tensor<1x1xf32>, !tile.view<?xf32>
  }
  return
}

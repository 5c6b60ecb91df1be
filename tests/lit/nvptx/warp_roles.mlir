// RUN: tile-opt %s --merge-loads --plan-warps="hopper shared-limit=232448 roles=2" --assign-layouts --lower-to-threads="hopper shared-limit=232448" --canonicalize --cse | FileCheck %s --check-prefixes=ALL,COOPERATIVE
// RUN: tile-opt %s --merge-loads --plan-warps="hopper shared-limit=232448 roles=2 cluster-ctas=2" --assign-layouts --lower-to-threads="hopper shared-limit=232448" --canonicalize --cse | FileCheck %s --check-prefixes=ALL,CLUSTER
// RUN: tile-opt %s --merge-loads --plan-warps="hopper shared-limit=232448 roles=3 stages=2" --assign-layouts --lower-to-threads="hopper shared-limit=232448 stages=2" --canonicalize --cse | FileCheck %s --check-prefixes=PINGPONG
// RUN: tile-opt %s --merge-loads --plan-warps="hopper shared-limit=232448 roles=1" --assign-layouts --lower-to-threads="hopper shared-limit=232448" --canonicalize --cse | FileCheck %s --check-prefixes=ALIKE
// RUN: tile-opt %s --merge-loads --plan-warps="shared-limit=166912 roles=2" --assign-layouts --lower-to-threads="shared-limit=166912" --canonicalize --cse | FileCheck %s --check-prefixes=ALIKE
// RUN: tile-opt %s --merge-loads --plan-warps="hopper tf32 shared-limit=232448 roles=2" --assign-layouts=tf32 --lower-to-threads="hopper tf32 shared-limit=232448" --canonicalize --cse | FileCheck %s --check-prefixes=TF32
// RUN: tile-opt %s --merge-loads --plan-warps="hopper shared-limit=232448 roles=2" --assign-layouts --lower-to-threads="hopper shared-limit=232448 starts-early" --canonicalize --cse | FileCheck %s --check-prefixes=EARLY

// A product may wait for the launch before it. Then the next one's CTAs take places that it leaves.
// EARLY-LABEL: func.func @product(
// EARLY-SAME: starts_early
// EARLY-NOT: mbarrier
// EARLY: griddepcontrol.wait;
// EARLY-NEXT: griddepcontrol.launch_dependents;
// EARLY: mbarrier
// EARLY-LABEL: func.func @halves(

// A K-major and an MN-major operand, stored as bf16.
// Maps: rows and columns of the boxes of a, b and c. In a cluster each CTA copies half of a's rows.
// COOPERATIVE: llvm.mlir.global internal @pace_slots
// ALL-LABEL: func.func @product(
// COOPERATIVE-SAME: persistent, product, shared_bytes = 231552 : i64
// COOPERATIVE-SAME: tensor_maps = [array<i64: 0, 128, 64, 0>, array<i64: 1, 64, 64, 0>, array<i64: 2, 16, 64, 0>], threads = 384 : i64
// CLUSTER-SAME: cluster_ctas = 2 : i64
// CLUSTER-SAME: ranks_clusters
// CLUSTER-SAME: tensor_maps = [array<i64: 0, 64, 64, 0>, array<i64: 1, 64, 64, 0>, array<i64: 2, 16, 64, 0>]
//
// Barriers of four stages: the copy engine fills, each warpgroup empties.
// COOPERATIVE-COUNT-1: nvvm.mbarrier.init.shared %{{.*}}, %c1_i32 :
// COOPERATIVE: nvvm.mbarrier.init.shared %{{.*}}, %c2_i32 :
// CLUSTER-COUNT-1: nvvm.mbarrier.init.shared %{{.*}}, %c1_i32 :
// CLUSTER: nvvm.mbarrier.init.shared %{{.*}}, %c4_i32 :
// ALL: nvvm.fence.mbarrier.init
// COOPERATIVE: nvvm.barrier0
// CLUSTER: nvvm.cluster.arrive{{$}}
//
// Consumers: while a step is multiplied the stage of the one before is handed back.
// ALL: nvvm.setmaxregister increase 232
// CLUSTER: @known ld.global.u32 $0, [at]; }
// ALL: scf.for
// ALL: scf.for
// ALL: nvvm.mbarrier.try_wait.parity.shared
// ALL: nvvm.wgmma.fence.aligned
// ALL-COUNT-4: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
// ALL: nvvm.wgmma.commit.group.sync.aligned
// ALL: nvvm.wgmma.wait.group.sync.aligned 1
// ALL: nvvm.mbarrier.arrive.shared
// COOPERATIVE-NOT: mapa
// CLUSTER: mapa.shared::cluster.u32 there, $0, $1;
// CLUSTER-SAME: mbarrier.arrive.shared::cluster.b64 _, [there];
// ALL: wgmma.wait_group.sync.aligned 0;
//
// Four boxes of 64 columns, two of them in turn, which no warp waits for another for.
// ALL: nvvm.cp.async.bulk.wait_group 0 {read}
// ALL-NOT: nvvm.barrier id
// ALL: nvvm.bar.warp.sync
// ALL-COUNT-4: stmatrix.sync.aligned.m8n8.x4.shared.b16
// ALL-NOT: st.shared.u32
// ALL: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>
// ALL-NOT: nvvm.barrier id
// ALL: nvvm.bar.warp.sync
// ALL: nvvm.cp.async.bulk.tensor.global.shared.cta
// ALL: nvvm.cp.async.bulk.wait_group 1 {read}
// ALL-COUNT-3: nvvm.cp.async.bulk.tensor.global.shared.cta
// ALL: nvvm.cp.async.bulk.wait_group 0{{$}}
//
// The producer: keeps pace with the others; one copy of a, four panels of b, whose lines may be the first to be
// replaced in the second-level cache.
// ALL: nvvm.setmaxregister decrease 40
// ALL-NOT: %c-64_i64
// ALL: %[[POLICY:.*]] = arith.select %{{.*}}, %c1364590687093260288_i64, %c1152921504606846976_i64 : i64
// ALL-NOT: %c-64_i64
// ALL: atom.relaxed.gpu.global.add.u32 sum, [$1], 1;
// ALL: nanosleep.u32 100;
// ALL: ld.relaxed.gpu.global.u32 sum, [$1];
// ALL: nvvm.mbarrier.try_wait.parity.shared
// ALL: nvvm.mbarrier.arrive.expect_tx.shared %{{.*}}, %c49152_i32
// COOPERATIVE: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}] l2_cache_hint = %c1152921504606846976_i64
// CLUSTER: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}] multicast_mask = %c3_i16 l2_cache_hint = %c1152921504606846976_i64
// ALL-COUNT-4: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}] l2_cache_hint = %[[POLICY]]
// ALL: red.relaxed.gpu.global.add.u32 [$0], 4194304;
// ALL: atom.relaxed.gpu.global.inc.u32 left, [$0+4], $1;
// ALL: @last st.relaxed.gpu.global.u32 [$0], 0;
// CLUSTER: nvvm.cluster.arrive{{$}}
//
// A tile of 128 × 256 is too large for one warpgroup; warps alike are the portable lowering.
// PINGPONG-LABEL: func.func @product(
// PINGPONG-NOT: wgmma
// ALIKE-LABEL: func.func @product(
// ALIKE-NOT: wgmma
// ALIKE: mma.sync.aligned.m16n8k16
func.func @product(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                   %c: !tile.view<?x?xbf16> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 1, 256>]} {
  %c128 = arith.constant 128 : index
  %c256 = arith.constant 256 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c256 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 0
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x256xf32>
  %y = arith.truncf %x : tensor<128x256xf32> to tensor<128x256xbf16>
  tile.store %y, %c[%i, %j] : tensor<128x256xbf16>, !tile.view<?x?xbf16>
  return
}

// 192 rows are not 64 for each of two warpgroups in turn: each has half of the columns. No thread has registers
// left for rows of the bias beside the product: they are loaded behind it.
// COOPERATIVE-LABEL: func.func @halves(
// COOPERATIVE-SAME: tensor_maps = [array<i64: 0, 192, 64, 0>, array<i64: 1, 64, 64, 0>, array<i64: 4, 16, 64, 0>]
// COOPERATIVE: nvvm.setmaxregister increase 232
// COOPERATIVE-NOT: ld.global
// COOPERATIVE-COUNT-12: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// COOPERATIVE: wgmma.wait_group.sync.aligned 0;
// COOPERATIVE: ld.global.f32
// COOPERATIVE-COUNT-6: nvvm.cp.async.bulk.tensor.global.shared.cta
// COOPERATIVE-NOT: cp.async.bulk.tensor.global
// COOPERATIVE: nvvm.setmaxregister decrease
// PINGPONG-LABEL: func.func @halves(
// PINGPONG-NOT: wgmma
func.func @halves(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                  %bias: !tile.view<?xf32> {tile.name = "bias"}, %scale: !tile.view<?xf32> {tile.name = "scale"},
                  %c: !tile.view<?x?xbf16> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 192>, array<i64: 1, 1, 256>]} {
  %c192 = arith.constant 192 : index
  %c256 = arith.constant 256 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c192 : index
  %j = arith.muli %q, %c256 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 0
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<192x256xf32>
  %s = tile.load %scale[%i] : !tile.view<?xf32> -> tensor<192x1xf32>
  %t = tile.broadcast %s : tensor<192x1xf32> -> tensor<192x256xf32>
  %v = tile.load %bias[%i] : !tile.view<?xf32> -> tensor<192x1xf32>
  %w = tile.broadcast %v : tensor<192x1xf32> -> tensor<192x256xf32>
  %m = arith.mulf %x, %t : tensor<192x256xf32>
  %n = arith.addf %m, %w : tensor<192x256xf32>
  %y = arith.truncf %n : tensor<192x256xf32> to tensor<192x256xbf16>
  tile.store %y, %c[%i, %j] : tensor<192x256xbf16>, !tile.view<?x?xbf16>
  return
}

// Warpgroups that take turns: one multiplies between its turn's barrier and the other's.
// PINGPONG-LABEL: func.func @add(
// PINGPONG: nvvm.barrier.arrive id = %{{.*}} number_of_threads = %c256_i32
// PINGPONG: nvvm.barrier id = %{{.*}} number_of_threads = %c256_i32
// PINGPONG-COUNT-8: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// PINGPONG: nvvm.wgmma.wait.group.sync.aligned 1
// PINGPONG: nvvm.barrier.arrive id = %{{.*}} number_of_threads = %c256_i32
// PINGPONG: wgmma.wait_group.sync.aligned 0;
// PINGPONG-COUNT-8: cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group
// PINGPONG-COUNT-4: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}] l2_cache_hint = %c1152921504606846976_i64
func.func @add(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
               %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 1, 128>, array<i64: 1, 1, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 0, %b[%j] contracting 0
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  tile.reduce_add %x, %c[%i, %j] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

// What the epilogue loads: rows ahead of the product, the block into the second-level cache. The output is read
// elsewhere too, so the threads store to it themselves.
// ALL-LABEL: func.func @epilogue(
// ALL: nvvm.setmaxregister increase
// ALL: ld.global.f32
// ALL: prefetch.global.L2
// ALL: wgmma.mma_async
// ALL: ld.global.v2.f32
// ALL-NOT: cp.async.bulk.tensor.global
// Two K-major operands: every other program runs backwards.
// ALL: nvvm.setmaxregister decrease
// ALL: arith.select %{{.+}}, %c64_i64, %c-64_i64 : i64
func.func @epilogue(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                    %bias: !tile.view<?xf32> {tile.name = "bias"}, %old: !tile.view<?x?xf32> {tile.name = "old"},
                    %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %v = tile.load %bias[%i] : !tile.view<?xf32> -> tensor<128x1xf32>
  %w = tile.broadcast %v : tensor<128x1xf32> -> tensor<128x128xf32>
  %o = tile.load %old[%i, %j] : !tile.view<?x?xf32> -> tensor<128x128xf32>
  %t = tile.load %c[%j, %i] : !tile.view<?x?xf32> -> tensor<128x128xf32>
  %y = arith.addf %x, %w : tensor<128x128xf32>
  %z = arith.addf %y, %o : tensor<128x128xf32>
  %u = arith.addf %z, %t : tensor<128x128xf32>
  tile.store %u, %c[%i, %j] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

// A block that is replaced by what is made of it is read a piece at a time, ahead of the piece's box.
// ALL-LABEL: func.func @replace(
// ALL: prefetch.global.L2
// ALL: wgmma.mma_async
// ALL: ld.global.v2.f32
// ALL: cp.async.bulk.tensor.global
// ALL: ld.global.v2.f32
// ALL: cp.async.bulk.tensor.global
// ALL: nvvm.setmaxregister decrease
func.func @replace(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                   %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %t = tile.load %c[%i, %j] : !tile.view<?x?xf32> -> tensor<128x128xf32>
  %u = arith.addf %x, %t : tensor<128x128xf32>
  tile.store %u, %c[%i, %j] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

// Two blocks that are replaced by what is made of both: a piece of each is read before anything is made of it,
// which ptxas would change without the warp's barrier.
// ALL-LABEL: func.func @replace_two(
// ALL: wgmma.mma_async
// ALL-NOT: st.{{global|shared}}
// ALL-COUNT-16: ld.global.u32
// ALL-NOT: st.{{global|shared}}
// ALL: bar.warp.sync
// ALL: cvt.rn.bf16x2.f32
// ALL: st.global.u32
// ALL: cp.async.bulk.tensor.global
// ALL: nvvm.setmaxregister decrease
func.func @replace_two(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                       %low: !tile.view<?x?xbf16> {tile.name = "low", tile.written},
                       %c: !tile.view<?x?xbf16> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %t = tile.load %c[%i, %j] : !tile.view<?x?xbf16> -> tensor<128x128xbf16>
  %l = tile.load %low[%i, %j] : !tile.view<?x?xbf16> -> tensor<128x128xbf16>
  %t32 = arith.extf %t : tensor<128x128xbf16> to tensor<128x128xf32>
  %l32 = arith.extf %l : tensor<128x128xbf16> to tensor<128x128xf32>
  %y = arith.addf %x, %t32 : tensor<128x128xf32>
  %z = arith.addf %y, %l32 : tensor<128x128xf32>
  %high = arith.truncf %z : tensor<128x128xf32> to tensor<128x128xbf16>
  %high32 = arith.extf %high : tensor<128x128xbf16> to tensor<128x128xf32>
  %rest = arith.subf %z, %high32 : tensor<128x128xf32>
  %rest16 = arith.truncf %rest : tensor<128x128xf32> to tensor<128x128xbf16>
  tile.store %high, %c[%i, %j] : tensor<128x128xbf16>, !tile.view<?x?xbf16>
  tile.store %rest16, %low[%i, %j] : tensor<128x128xbf16>, !tile.view<?x?xbf16>
  return
}

// Beside no product, rows may end anywhere: what is read are vectors, or else single numbers.
// ALL-LABEL: func.func @no_product(
// ALL: ld.global.v4.f32
// ALL: } else {
// ALL: ld.global.f32
// ALL: return
func.func @no_product(%a: !tile.view<?x?xf32> {tile.name = "a"}, %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 32>]} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %p = tile.program_id 0
  %i = arith.muli %p, %c32 : index
  %t = tile.load %a[%i, %c0] : !tile.view<?x?xf32> -> tensor<32x128xf32>
  tile.store %t, %c[%i, %c0] : tensor<32x128xf32>, !tile.view<?x?xf32>
  return
}

// A condition that holds for all programs or for none empties the loop over them; the rest of it is asked for each.
// ALL-LABEL: func.func @emptied(
// ALL: nvvm.setmaxregister increase
// ALL: %[[SWITCH:.*]] = arith.cmpi sgt
// ALL: %[[COUNT:.*]] = arith.select %[[SWITCH]]
// ALL: scf.for
// ALL: scf.if
// ALL: wgmma.mma_async
func.func @emptied(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                   %switch: !tile.view<?xi32> {tile.name = "switch"},
                   %c: !tile.view<?x?xbf16> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %s = tile.load %switch[%c0] : !tile.view<?xi32> -> tensor<1x1xi32>
  %zero = arith.constant dense<0> : tensor<1x1xi32>
  %on = arith.cmpi sgt, %s, %zero : tensor<1x1xi32>
  %all = tile.extract %on : tensor<1x1xi1>
  %row = tile.splat %i : index -> tensor<1x1xi32>
  %before = arith.cmpi slt, %row, %s : tensor<1x1xi32>
  %mine = tile.extract %before : tensor<1x1xi1>
  %both = arith.andi %all, %mine : i1
  scf.if %both {
    %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
        : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
    %y = arith.truncf %x : tensor<128x128xf32> to tensor<128x128xbf16>
    tile.store %y, %c[%i, %j] : tensor<128x128xbf16>, !tile.view<?x?xbf16>
  }
  return
}

// A third of the contracted axis: the producer begins at its first step of 64, or, where it runs backwards, at
// its last, and both roles do its steps alone.
// CLUSTER-LABEL: func.func @third(
// CLUSTER-SAME: cluster_ctas = 2 : i64
// CLUSTER: nvvm.setmaxregister increase 232
// CLUSTER: %[[FIRST:.*]] = arith.divui %{{.*}}, %c3_i64
// CLUSTER: %[[AFTER:.*]] = arith.divui %{{.*}}, %c3_i64
// CLUSTER: arith.subi %[[AFTER]], %[[FIRST]]
// CLUSTER: wgmma.mma_async
// CLUSTER: nvvm.setmaxregister decrease 40
// CLUSTER: %[[BEGIN:.*]] = arith.divui %{{.*}}, %c3_i64
// CLUSTER: %[[END:.*]] = arith.divui %{{.*}}, %c3_i64
// CLUSTER: %[[LAST:.*]] = arith.subi %[[END]], %c1_i64
// CLUSTER: %[[STEP:.*]] = arith.select %{{.*}}, %[[BEGIN]], %[[LAST]]
// CLUSTER: arith.muli %[[STEP]], %c64_i64
// CLUSTER: nvvm.cp.async.bulk.tensor.shared.cluster.global
func.func @third(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                 %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 2, 0, 128>, array<i64: 1, 1, 256>]} {
  %c128 = arith.constant 128 : index
  %c256 = arith.constant 256 : index
  %c3 = arith.constant 3 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %to = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c256 : index
  %all = tile.dim %c, 0 : !tile.view<?x?xf32>
  %rows = arith.divui %all, %c3 : index
  %part = arith.divui %to, %rows : index
  %before = arith.muli %part, %rows : index
  %i = arith.subi %to, %before : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1 part %part of 3
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x256xf32>
  tile.store %x, %c[%to, %j] : tensor<128x256xf32>, !tile.view<?x?xf32>
  return
}

// fp32 that is rounded to TF32 as the copy engine copies it (the 1 of its maps): 32 numbers a line, four products
// of 8. Such a product over the rows of a matrix is the portable lowering's, and so is one that is not to be rounded.
// TF32-LABEL: func.func @tf32(
// TF32-SAME: tensor_maps = [array<i64: 0, 128, 32, 1>, array<i64: 1, 128, 32, 1>, array<i64: 2, 16, 32, 0>]
// TF32: wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32
// TF32-SAME: left, right, addsFirst, 1, 1;
// TF32-SAME: add.s32 low, $128, 2;
// TF32: nvvm.setmaxregister decrease
// TF32: arith.select %{{.+}}, %c32_i64, %c-32_i64 : i64
// TF32: nvvm.mbarrier.arrive.expect_tx.shared %{{.*}}, %c32768_i32
// TF32-LABEL: func.func @tf32_over_rows(
// TF32: mma.sync.aligned.m16n8k8
// ALL-LABEL: func.func @tf32(
// ALL-NOT: wgmma
// ALL-LABEL: func.func @tf32_over_rows(
func.func @tf32(%a: !tile.view<?x?xf32> {tile.name = "a"}, %b: !tile.view<?x?xf32> {tile.name = "b"},
                %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xf32>, !tile.view<?x?xf32> -> tensor<128x128xf32>
  tile.store %x, %c[%i, %j] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

func.func @tf32_over_rows(%a: !tile.view<?x?xf32> {tile.name = "a"}, %b: !tile.view<?x?xf32> {tile.name = "b"},
                          %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 1, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 0
      : !tile.view<?x?xf32>, !tile.view<?x?xf32> -> tensor<128x128xf32>
  tile.store %x, %c[%i, %j] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

// Where only sums of the product are stored, its first step replaces what the registers hold, and there is one
// even of an empty axis; a part of the axis may have none.
// COOPERATIVE-LABEL: func.func @sums(
// COOPERATIVE: llvm.mlir.undef : f32
// COOPERATIVE: nvvm.setmaxregister increase 232
// COOPERATIVE: arith.maxsi %{{.*}}, %c1_i32
// COOPERATIVE: setp.ne.b32 addsFirst, $130, 0;
// COOPERATIVE-SAME: left, right, addsFirst, 1, 1, 0, 0;
// COOPERATIVE-SAME: left, right, adds, 1, 1, 0, 0;
// COOPERATIVE: nvvm.setmaxregister decrease
// COOPERATIVE: arith.maxsi %{{.*}}, %c1_i32
// COOPERATIVE-LABEL: func.func @sums_of_part(
// COOPERATIVE-NOT: addsFirst
func.func @sums(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %s = tile.reduce sum, %x along 1 : tensor<128x128xf32>
  tile.store %s, %c[%i, %q] : tensor<128x1xf32>, !tile.view<?x?xf32>
  return
}

func.func @sums_of_part(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                        %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 0, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %part = arith.constant 1 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 1 part %part of 3
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  %s = tile.reduce sum, %x along 1 : tensor<128x128xf32>
  tile.store %s, %c[%i, %q] : tensor<128x1xf32>, !tile.view<?x?xf32>
  return
}

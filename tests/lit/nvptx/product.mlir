// RUN: tile-opt %s --assign-layouts --lower-to-threads=shared-limit=166912 --canonicalize --cse | FileCheck %s
// RUN: tile-opt %s --assign-layouts=tf32 --lower-to-threads="shared-limit=166912 tf32" --canonicalize --cse | FileCheck %s --check-prefix=TF32
// RUN: tile-opt %s --assign-layouts --lower-to-threads="shared-limit=166912 raster-rows=8" --canonicalize --cse | FileCheck %s --check-prefix=RASTER
// RUN: tile-opt %s --assign-layouts=wgmma --lower-to-threads="shared-limit=232448 wgmma" --canonicalize --cse | FileCheck %s --check-prefix=WGMMA

// 128×128 in four warps of 64×64; three stages of 2·128·64 bf16.
// CHECK-LABEL: func.func @bf16(
// CHECK-SAME: shared_bytes = 98304 : i64, threads = 128 : i64
// CHECK: nvvm.barrier0
// CHECK: scf.for
// CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg, %
// CHECK: nvvm.cp.async.commit.group
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group 1
// CHECK-NEXT: nvvm.barrier0
// CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-COUNT-128: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT: mma.sync
// CHECK: nvvm.cp.async.wait.group 0
func.func @bf16(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                %c: !tile.view<?x?xf32> {tile.name = "c", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 1, %b[%c0] contracting 0
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  tile.store %x, %c[%c0, %c0] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

// fp32 stays fp32 unless TF32 is asked for: then ldmatrix moves four numbers along the contracted axis at once, which
// are rounded before they are multiplied.
// CHECK-LABEL: func.func @f32(
// CHECK: nvvm.cp.async.shared.global {{.*}}, 4, cache = ca, %
// CHECK: ld.shared.v4.f32
// CHECK: math.fma
// CHECK-NOT: mma.sync
// TF32-LABEL: func.func @f32(
// TF32: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg, %
// TF32: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// TF32: cvt.rna.tf32.f32
// TF32: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
func.func @f32(%a: !tile.view<?x?xf32> {tile.name = "a"}, %b: !tile.view<?x?xf32> {tile.name = "b"},
               %c: !tile.view<?x?xf32> {tile.name = "c", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 1, %b[%c0] contracting 1
      : !tile.view<?x?xf32>, !tile.view<?x?xf32> -> tensor<64x64xf32>
  tile.store %x, %c[%c0, %c0] : tensor<64x64xf32>, !tile.view<?x?xf32>
  return
}

// Operands in whose rows the contracted axis does not run are panels, depth by depth as in memory: 16 bytes a copy where
// they are aligned.
// CHECK-LABEL: func.func @f32_over_rows(
// CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg, %
// CHECK: nvvm.cp.async.shared.global {{.*}}, 4, cache = ca, %
// CHECK: ld.shared.v4.f32
// CHECK: math.fma
// TF32-LABEL: func.func @f32_over_rows(
// TF32: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg, %
// TF32: nvvm.cp.async.shared.global {{.*}}, 4, cache = ca, %
// TF32-NOT: ldmatrix
// TF32: ld.shared.u32
// TF32: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
func.func @f32_over_rows(%a: !tile.view<?x?xf32> {tile.name = "a"}, %b: !tile.view<?x?xf32> {tile.name = "b"},
                         %c: !tile.view<?x?xf32> {tile.name = "c", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 0, %b[%c0] contracting 0
      : !tile.view<?x?xf32>, !tile.view<?x?xf32> -> tensor<64x64xf32>
  tile.store %x, %c[%c0, %c0] : tensor<64x64xf32>, !tile.view<?x?xf32>
  return
}

// Products of tiles and transposes go through shared memory.
// CHECK-LABEL: func.func @tiles(
// CHECK: st.shared.f32
// CHECK: nvvm.barrier0
// CHECK: math.fma
// CHECK: st.shared.f32
// CHECK: nvvm.barrier0
// CHECK: ld.shared.f32
func.func @tiles(%a: !tile.view<?x?xf32> {tile.name = "a"}, %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0, %c0] : !tile.view<?x?xf32> -> tensor<16x32xf32>
  %y = tile.load %a[%c0, %c0] : !tile.view<?x?xf32> -> tensor<32x8xf32>
  %z = tile.dot %x, %y : tensor<16x32xf32>, tensor<32x8xf32>
  %t = tile.transpose %z : tensor<16x8xf32>
  tile.store %t, %c[%c0, %c0] : tensor<8x16xf32>, !tile.view<?x?xf32>
  return
}

// Of 16-bit numbers tensor cores multiply them: what one product leaves in registers is rounded to the next one's left
// fragments, and the right operand is copied from memory to shared memory.
// CHECK-LABEL: func.func @chain(
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: cvt.rn.bf16x2.f32
// CHECK-NOT: st.shared
// CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT: math.fma
func.func @chain(%q: !tile.view<?x?xbf16> {tile.name = "q"}, %k: !tile.view<?x?xbf16> {tile.name = "k"},
                 %v: !tile.view<?x?xbf16> {tile.name = "v"}, %o: !tile.view<?x?xf32> {tile.name = "o", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %s = tile.contract %q[%c0] contracting 1, %k[%c0] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<64x32xf32>
  %p = arith.truncf %s : tensor<64x32xf32> to tensor<64x32xbf16>
  %w = tile.load %v[%c0, %c0] : !tile.view<?x?xbf16> -> tensor<32x64xbf16>
  %x = tile.dot %p, %w : tensor<64x32xbf16>, tensor<32x64xbf16>
  tile.store %x, %o[%c0, %c0] : tensor<64x64xf32>, !tile.view<?x?xf32>
  return
}

// CTAs take programs in the order of their numbers: with rasters of 8 rows not those of their place in the grid.
// CHECK-LABEL: func.func @ordered(
// CHECK-NOT: nvvm.read.ptx.sreg.nctaid
// CHECK: nvvm.cp.async.commit.group
// RASTER-LABEL: func.func @ordered(
// RASTER-DAG: %[[X:.*]] = nvvm.read.ptx.sreg.ctaid.x
// RASTER-DAG: %[[Y:.*]] = nvvm.read.ptx.sreg.ctaid.y
// RASTER-DAG: %[[WIDTH:.*]] = nvvm.read.ptx.sreg.nctaid.x
// RASTER: %[[BEFORE:.*]] = arith.muli %[[Y]], %[[WIDTH]]
// RASTER: %[[NUMBER:.*]] = arith.addi %[[BEFORE]], %[[X]]
// RASTER: %[[GROUP:.*]] = arith.divui %[[NUMBER]]
// RASTER: nvvm.cp.async.commit.group
func.func @ordered(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                   %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile.grid = [array<i64: 0, 0, 128>, array<i64: 1, 1, 128>]} {
  %c128 = arith.constant 128 : index
  %p = tile.program_id 0
  %q = tile.program_id 1
  %i = arith.muli %p, %c128 : index
  %j = arith.muli %q, %c128 : index
  %x = tile.contract %a[%i] contracting 1, %b[%j] contracting 0
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  tile.store %x, %c[%i, %j] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

// The part of the contracted axis begins at a multiple of 64 of both operands.
// CHECK-LABEL: func.func @part(
// CHECK: %[[STEPS:.*]] = arith.divui %{{.*}}, %c64_i64
// CHECK: arith.muli %[[STEPS]]
// CHECK: arith.divui %{{.*}}, %c3_i64
// CHECK: mma.sync.aligned.m16n8k16
func.func @part(%a: !tile.view<?x?xbf16> {tile.name = "a"}, %b: !tile.view<?x?xbf16> {tile.name = "b"},
                %c: !tile.view<?x?xf32> {tile.name = "c", tile.written}, %p: index {tile.name = "p"})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 1, %b[%c0] contracting 0 part %p of 3
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  tile.store %x, %c[%c0, %c0] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

// Products of tiles by a warpgroup: the left operand from lines of shared memory, then the rounded result from registers,
// the right one along the contracted axis (K-major) and across it. Nothing but the last product's sums is added up.
// CHECK-LABEL: func.func @warpgroup(
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// WGMMA-LABEL: func.func @warpgroup(
// WGMMA-SAME: threads = 128 : i64
// WGMMA: nvvm.cp.async.shared.global
// WGMMA: nvvm.cp.async.wait.group
// WGMMA-NEXT: nvvm.fence.proxy
// WGMMA-NEXT: nvvm.barrier0
// WGMMA-NEXT: nvvm.wgmma.fence.aligned
// WGMMA: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{.*}}, left, right, addsFirst, 1, 1, 0, 0;
// WGMMA: nvvm.wgmma.commit.group.sync.aligned
// WGMMA-NEXT: wgmma.wait_group.sync.aligned 0;
// WGMMA: cvt.rn.bf16x2.f32
// WGMMA: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}}}, right, adds, 1, 1, 1;
// WGMMA-NOT: mma.sync
// WGMMA-NOT: arith.addf
func.func @warpgroup(%q: !tile.view<?x?xbf16> {tile.name = "q"}, %k: !tile.view<?x?xbf16> {tile.name = "k"},
                     %v: !tile.view<?x?xbf16> {tile.name = "v"}, %o: !tile.view<?x?xf32> {tile.name = "o", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %a = tile.load %q[%c0, %c0] : !tile.view<?x?xbf16> -> tensor<64x64xbf16>
  %b = tile.load %k[%c0, %c0] : !tile.view<?x?xbf16> -> tensor<128x64xbf16>
  %t = tile.transpose %b : tensor<128x64xbf16>
  %s = tile.dot %a, %t : tensor<64x64xbf16>, tensor<64x128xbf16>
  %p = arith.truncf %s : tensor<64x128xf32> to tensor<64x128xbf16>
  %w = tile.load %v[%c0, %c0] : !tile.view<?x?xbf16> -> tensor<128x64xbf16>
  %before = tile.load %o[%c0, %c0] : !tile.view<?x?xf32> -> tensor<64x64xf32>
  %x = tile.dot %p, %w : tensor<64x128xbf16>, tensor<128x64xbf16>
  %y = arith.addf %before, %x : tensor<64x64xf32>
  tile.store %y, %o[%c0, %c0] : tensor<64x64xf32>, !tile.view<?x?xf32>
  return
}

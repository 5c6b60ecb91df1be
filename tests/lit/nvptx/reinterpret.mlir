// RUN: tile-opt %s --assign-layouts --lower-to-threads --canonicalize --cse | FileCheck %s

// Half as many elements of twice the size in a row and from row to row, at the same address. Threads overwrite what
// others load, within a block and in the next one: barriers stand between, in the block and behind it.
// CHECK-LABEL: func.func @rounded_in_place(
// CHECK-SAME: %[[ADDRESS:.*]]: i64, %{{.*}}: i64, %[[COLUMNS:.*]]: i64, %[[STRIDE:.*]]: i64)
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : i64
// CHECK-DAG: %[[FOUR:.*]] = arith.constant 4 : i64
// CHECK-DAG: %[[COLUMN_BYTES:.*]] = arith.muli %[[COLUMNS]], %[[TWO]]
// CHECK-DAG: %[[WIDE_COLUMNS:.*]] = arith.divui %[[COLUMN_BYTES]], %[[FOUR]]
// CHECK-DAG: %[[STRIDE_BYTES:.*]] = arith.muli %[[STRIDE]], %[[TWO]]
// CHECK-DAG: %[[WIDE_STRIDE:.*]] = arith.divui %[[STRIDE_BYTES]], %[[FOUR]]
// CHECK: nvvm.barrier0
// CHECK: scf.for
// CHECK-COUNT-2: ld.global.v4.f32
// CHECK: nvvm.barrier0
// CHECK: st.global.v4.u32
// CHECK: nvvm.barrier0
func.func @rounded_in_place(%v: !tile.view<?x?xbf16> {tile.name = "v", tile.written}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c256 = arith.constant 256 : index
  %w = tile.reinterpret %v : !tile.view<?x?xbf16> to !tile.view<?x?xf32>
  %n = tile.dim %w, 1 : !tile.view<?x?xf32>
  scf.for %j = %c0 to %n step %c256 {
    %x = tile.load %w[%c0, %j] : !tile.view<?x?xf32> -> tensor<1x256xf32>
    %y = arith.truncf %x : tensor<1x256xf32> to tensor<1x256xbf16>
    tile.store %y, %v[%c0, %j] : tensor<1x256xbf16>, !tile.view<?x?xbf16>
  }
  return
}

// Two stores of tiles alike, of which the second overwrites half of the first: not side by side.
// CHECK-LABEL: func.func @stored_twice(
// CHECK-COUNT-2: st.global.f32
// CHECK: nvvm.barrier0
// CHECK-COUNT-2: st.global.u16
func.func @stored_twice(%a: !tile.view<?xf32> {tile.name = "a"}, %v: !tile.view<?xbf16> {tile.name = "v", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<64x1xf32>
  %y = arith.truncf %x : tensor<64x1xf32> to tensor<64x1xbf16>
  %w = tile.reinterpret %v : !tile.view<?xbf16> to !tile.view<?xf32>
  tile.store %x, %w[%c0] : tensor<64x1xf32>, !tile.view<?xf32>
  tile.store %y, %v[%c0] : tensor<64x1xbf16>, !tile.view<?xbf16>
  return
}

// RUN: tile-opt %s --stream-rows=block=64 --canonicalize --cse --verify-diagnostics --split-input-file | FileCheck %s
// Sweeps keep what memory holds.

// A row is overwritten in place by the sweep that reads it last.
// CHECK-LABEL: @in_place
func.func @in_place(%v: !tile.view<?x?xf32>, %r: index) {
  // CHECK: scf.for
  // CHECK-NOT: tile.store
  // CHECK: scf.for
  // CHECK: tile.load
  // CHECK: tile.store
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %m = tile.reduce max, %x along 1 : tensor<8x?xf32>
  %ms = tile.broadcast %m size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %y = arith.subf %x, %ms : tensor<8x?xf32>
  tile.store %y, %v[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// -----

// The store could run in the first sweep, but the second needs the row as it was.
// CHECK-LABEL: @store_waits
func.func @store_waits(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xf32>, %r: index) {
  // CHECK: scf.for
  // CHECK-NOT: tile.store
  // CHECK: scf.for
  // CHECK: %[[X:.*]] = tile.load
  // CHECK: %[[E:.*]] = math.exp %[[X]]
  // CHECK: tile.store %[[E]]
  // CHECK: %[[Y:.*]] = arith.subf %[[X]]
  // CHECK: tile.store %[[Y]]
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %m = tile.reduce max, %x along 1 : tensor<8x?xf32>
  %e = math.exp %x : tensor<8x?xf32>
  tile.store %e, %v[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  %ms = tile.broadcast %m size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %y = arith.subf %x, %ms : tensor<8x?xf32>
  tile.store %y, %w[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// -----

// What was stored is loaded by the same block of the same sweep.
// CHECK-LABEL: @load_of_what_was_stored
func.func @load_of_what_was_stored(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xf32>, %r: index) -> tensor<8x1xf32> {
  // CHECK: scf.for
  // CHECK: tile.load %arg0
  // CHECK: tile.store %{{.*}}, %[[W:.*]][
  // CHECK: tile.load %arg1
  // CHECK: scf.yield
  // CHECK-NOT: scf.for
  // CHECK: return
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  tile.store %x, %w[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  %y = tile.load %w[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %y along 1 : tensor<8x?xf32>
  return %s : tensor<8x1xf32>
}

// -----

// Other columns of the row need the whole store behind them, or before them.
// CHECK-LABEL: @load_of_other_columns
func.func @load_of_other_columns(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xf32>, %r: index, %j: index) -> tensor<8x1xf32> {
  // CHECK: scf.for
  // CHECK: tile.load %arg0
  // CHECK: tile.store
  // CHECK: scf.for
  // CHECK: tile.load %arg1
  // CHECK: scf.yield
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  tile.store %x, %w[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  %y = tile.load %w[%r, %j] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %y along 1 : tensor<8x?xf32>
  return %s : tensor<8x1xf32>
}

// -----

// Static tiles and rows of one view keep their order too.
// CHECK-LABEL: @static_between_long
func.func @static_between_long(%v: !tile.view<?x?xf32>, %t: tensor<8x64xf32>, %r: index, %q: index) -> tensor<8x64xf32> {
  // CHECK: tile.store %arg1
  // CHECK: scf.for
  // CHECK:   tile.load
  // CHECK:   tile.store
  // CHECK: }
  // CHECK: %[[AFTER:.*]] = tile.load
  // CHECK: return %[[AFTER]]
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  tile.store %t, %v[%r, %c0] : tensor<8x64xf32>, !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %e = math.exp %x : tensor<8x?xf32>
  tile.store %e, %v[%q, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  %after = tile.load %v[%r, %c0] : !tile.view<?x?xf32> -> tensor<8x64xf32>
  return %after : tensor<8x64xf32>
}

// -----

// A static store, or one in a branch, waits until a row is not loaded any more.
// CHECK-LABEL: @static_store_waits
func.func @static_store_waits(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xf32>, %t: tensor<8x64xf32>, %r: index, %c: i1) {
  // CHECK: scf.for
  // CHECK-NOT: scf.if
  // CHECK: scf.for
  // CHECK: tile.store
  // CHECK: scf.if
  // CHECK-NEXT: tile.store %arg2
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  scf.if %c {
    tile.store %t, %v[%r, %c0] : tensor<8x64xf32>, !tile.view<?x?xf32>
  }
  %m = tile.reduce max, %x along 1 : tensor<8x?xf32>
  %ms = tile.broadcast %m size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %y = arith.subf %x, %ms : tensor<8x?xf32>
  tile.store %y, %w[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// -----

// The same where the stored view may be the loaded one, bound twice.
// CHECK-LABEL: @store_waits_for_another_view
func.func @store_waits_for_another_view(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xf32>, %u: !tile.view<?x?xf32>, %r: index) {
  // CHECK: scf.for
  // CHECK-NOT: tile.store
  // CHECK: scf.for
  // CHECK: %[[X:.*]] = tile.load
  // CHECK: %[[E:.*]] = math.exp %[[X]]
  // CHECK: tile.store %[[E]]
  // CHECK: %[[Y:.*]] = arith.subf %[[X]]
  // CHECK: tile.store %[[Y]]
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %m = tile.reduce max, %x along 1 : tensor<8x?xf32>
  %e = math.exp %x : tensor<8x?xf32>
  tile.store %e, %w[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  %ms = tile.broadcast %m size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %y = arith.subf %x, %ms : tensor<8x?xf32>
  tile.store %y, %u[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// -----

// A view of another type is another tensor: its store has no reason to wait.
// CHECK-LABEL: @store_of_another_type
func.func @store_of_another_type(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xi32>, %r: index) {
  // CHECK: scf.for
  // CHECK: tile.store %{{.*}} : tensor<8x64xi32>
  // CHECK: scf.yield
  // CHECK: scf.for
  // CHECK: tile.store %{{.*}} : tensor<8x64xf32>
  %c0 = arith.constant 0 : index
  %n = tile.dim %v, 1 : !tile.view<?x?xf32>
  %x = tile.load %v[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %m = tile.reduce max, %x along 1 : tensor<8x?xf32>
  %e = arith.fptosi %x : tensor<8x?xf32> to tensor<8x?xi32>
  tile.store %e, %w[%r, %c0] : tensor<8x?xi32>, !tile.view<?x?xi32>
  %ms = tile.broadcast %m size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %y = arith.subf %x, %ms : tensor<8x?xf32>
  tile.store %y, %v[%r, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// -----

// Of elements of another type a block of the same columns is another place: the store waits for the whole row.
// CHECK-LABEL: @store_of_other_elements
func.func @store_of_other_elements(%v: !tile.view<?x?xbf16>, %u: !tile.view<?x?xbf16>, %r: index) -> tensor<8x1xf32> {
  // CHECK: scf.for
  // CHECK-NOT: tile.store
  // CHECK: scf.yield
  // CHECK: scf.for
  // CHECK: tile.store
  %c0 = arith.constant 0 : index
  %w = tile.reinterpret %v : !tile.view<?x?xbf16> to !tile.view<?x?xf32>
  %n = tile.dim %w, 1 : !tile.view<?x?xf32>
  %x = tile.load %w[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
  %y = tile.load %u[%r, %c0] size %n : !tile.view<?x?xbf16> -> tensor<8x?xbf16>
  tile.store %y, %v[%r, %c0] : tensor<8x?xbf16>, !tile.view<?x?xbf16>
  return %s : tensor<8x1xf32>
}

// -----

// A row that is rounded in place cannot be streamed.
func.func @rounded_in_place(%v: !tile.view<?x?xbf16>, %r: index) {
  %c0 = arith.constant 0 : index
  %w = tile.reinterpret %v : !tile.view<?x?xbf16> to !tile.view<?x?xf32>
  %n = tile.dim %w, 1 : !tile.view<?x?xf32>
  // expected-note@+1 {{the row is loaded here}}
  %x = tile.load %w[%r, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %y = arith.truncf %x : tensor<8x?xf32> to tensor<8x?xbf16>
  // expected-error@+1 {{may overwrite a long row that is needed again after it}}
  tile.store %y, %v[%r, %c0] : tensor<8x?xbf16>, !tile.view<?x?xbf16>
  return
}

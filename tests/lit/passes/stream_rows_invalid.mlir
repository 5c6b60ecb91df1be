// RUN: tile-opt %s --stream-rows --verify-diagnostics --split-input-file
// RUN: not tile-opt %s --stream-rows=block=-1 --split-input-file 2>&1 | FileCheck %s
// CHECK: stream-rows: expected a block of 0 or more columns, found -1

func.func @gather(%v: !tile.view<?x?xf32>, %i: tensor<8x1xi32>, %n: index) -> tensor<8x1xf32> {
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  // expected-error@+1 {{'tile.gather' op cannot be computed block by block along a long row; run gather-to-select before stream-rows}}
  %y = tile.gather %x[%i] : tensor<8x?xf32>, tensor<8x1xi32>
  return %y : tensor<8x1xf32>
}

// -----

func.func @log_softmax(%v: !tile.view<?x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  // expected-error@+1 {{'tile.log_softmax' op cannot be computed block by block along a long row; run decompose-softmax before stream-rows}}
  %y = tile.log_softmax %x : tensor<8x?xf32>
  tile.store %y, %v[%c0, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// -----

// expected-note@+2 {{one width}}
// expected-note@+1 {{the other width}}
func.func @two_widths(%v: !tile.view<?x?xf32>, %n: index, %k: index) -> tensor<8x1xf32> {
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %y = tile.load %v[%c0, %c0] size %k : !tile.view<?x?xf32> -> tensor<8x?xf32>
  // expected-error@+1 {{needs long tiles of one width, found two}}
  %z = arith.addf %x, %y : tensor<8x?xf32>
  %s = tile.reduce sum, %z along 1 : tensor<8x?xf32>
  return %s : tensor<8x1xf32>
}

// -----

func.func @returned(%v: !tile.view<?x?xf32>, %n: index) -> tensor<8x?xf32> {
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  // expected-error@+1 {{lets a long tile leave its block; store it, or reduce its rows}}
  return %x : tensor<8x?xf32>
}

// -----

func.func @argument(%x: tensor<8x?xf32>) -> tensor<8x1xf32> {
  // expected-error@+1 {{has a long operand of unknown width}}
  %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
  return %s : tensor<8x1xf32>
}

// -----

// expected-error@+1 {{has a long tile that could not be streamed: 'tensor<8x?xf32>'}}
func.func @unused_argument(%x: tensor<8x?xf32>) {
  return
}

// -----

func.func @carried(%v: !tile.view<?x?xf32>, %n: index) -> tensor<8x1xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> (tensor<8x?xf32>) {
    // expected-error@+1 {{has a long operand of unknown width}}
    %e = math.exp %a : tensor<8x?xf32>
    scf.yield %e : tensor<8x?xf32>
  }
  %s = tile.reduce sum, %y along 1 : tensor<8x?xf32>
  return %s : tensor<8x1xf32>
}

// -----

// The maximum hangs on what was stored, and the row as it was before is needed after the maximum.
func.func @overwritten(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  // expected-note@+1 {{the row is loaded here}}
  %x = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %e = math.exp %x : tensor<8x?xf32>
  // expected-error@+1 {{may overwrite a long row that is needed again after it; store it last, or load the row anew}}
  tile.store %e, %v[%c0, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  %y = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %m = tile.reduce max, %y along 1 : tensor<8x?xf32>
  %ms = tile.broadcast %m size %n : tensor<8x1xf32> -> tensor<8x?xf32>
  %d = arith.subf %x, %ms : tensor<8x?xf32>
  tile.store %d, %w[%c0, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  return
}

// -----

func.func @overwritten_before_a_region(%v: !tile.view<?x?xf32>, %w: !tile.view<?x?xf32>, %n: index, %c: i1) {
  %c0 = arith.constant 0 : index
  // expected-note@+1 {{the row is loaded here}}
  %x = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %e = math.exp %x : tensor<8x?xf32>
  // expected-error@+1 {{may overwrite a long row before its use}}
  tile.store %e, %v[%c0, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  // expected-note@+1 {{and used in this region}}
  scf.if %c {
    tile.store %x, %w[%c0, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  }
  return
}

// -----

// The second time round, the row would be the one of the first.
func.func @overwritten_in_a_loop(%v: !tile.view<?x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-note@+1 {{the row is loaded here}}
  %x = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  // expected-note@+2 {{and used in this region}}
  // expected-error@+1 {{may overwrite a long row before its use}}
  scf.for %i = %c0 to %n step %c1 {
    tile.store %x, %v[%i, %c0] : tensor<8x?xf32>, !tile.view<?x?xf32>
  }
  return
}

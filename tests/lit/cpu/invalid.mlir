// RUN: tile-opt %s --split-input-file --lower-to-vector --verify-diagnostics

func.func @long(%x: !tile.view<?x?xf32> {tile.name = "x"}, %n: index {tile.name = "n"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{makes a long tile; lower-to-vector expects stream-rows to have run}}
  %a = tile.load %x[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<4x?xf32>
  return
}

// -----

func.func @unknown(%x: !tile.view<?x?xf32> {tile.name = "x"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] : !tile.view<?x?xf32> -> tensor<4x64xf32>
  // expected-error @below {{has no CPU lowering}}
  %p = tile.log_softmax %a : tensor<4x64xf32>
  tile.store %p, %x[%c0, %c0] : tensor<4x64xf32>, !tile.view<?x?xf32>
  return
}

// -----

func.func @branch(%x: !tile.view<?x?xf32> {tile.name = "x"}, %n: index {tile.name = "n"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %isLarge = arith.cmpi sgt, %n, %c0 : index
  // expected-error @below {{gives a value that is not a tile}}
  %m = scf.if %isLarge -> (index) {
    scf.yield %n : index
  } else {
    scf.yield %c0 : index
  }
  %a = tile.load %x[%m, %c0] : !tile.view<?x?xf32> -> tensor<1x1xf32>
  tile.store %a, %x[%c0, %c0] : tensor<1x1xf32>, !tile.view<?x?xf32>
  return
}

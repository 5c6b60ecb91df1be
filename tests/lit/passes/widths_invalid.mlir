// RUN: tile-opt %s --split-input-file --verify-diagnostics --gather-to-select --decompose-softmax

func.func @gather(%x: tensor<8x?xf32>, %i: tensor<8x1xi32>) -> tensor<8x1xf32> {
  // expected-error@+1 {{'tile.gather' op has a long operand of unknown width}}
  %0 = tile.gather %x[%i] : tensor<8x?xf32>, tensor<8x1xi32>
  return %0 : tensor<8x1xf32>
}

// -----

func.func @log_softmax(%x: tensor<8x?xf32>) -> tensor<8x?xf32> {
  // expected-error@+1 {{'tile.log_softmax' op has a long operand of unknown width}}
  %0 = tile.log_softmax %x : tensor<8x?xf32>
  return %0 : tensor<8x?xf32>
}

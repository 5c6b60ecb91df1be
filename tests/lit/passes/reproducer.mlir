// What a pass leaves behind when it fails, tile-opt repeats.
// RUN: not tile-opt %s --cse --stream-rows --mlir-pass-pipeline-crash-reproducer=%t.mlir
// RUN: not tile-opt --run-reproducer %t.mlir 2>&1 | FileCheck %s
// CHECK: error: 'tile.gather' op cannot be computed block by block

func.func @gather(%v: !tile.view<?x?xf32>, %i: tensor<8x1xi32>, %n: index) -> tensor<8x1xf32> {
  %c0 = arith.constant 0 : index
  %x = tile.load %v[%c0, %c0] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
  %y = tile.gather %x[%i] : tensor<8x?xf32>, tensor<8x1xi32>
  return %y : tensor<8x1xf32>
}

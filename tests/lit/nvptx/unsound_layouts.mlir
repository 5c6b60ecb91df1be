// RUN: tile-opt %s --lower-to-threads --split-input-file --verify-diagnostics

// Layouts that are well-formed, but not what the lowering can go by.

// expected-error @below {{has no layouts: expected assign-layouts to have run}}
func.func @alone(%a: !tile.view<?xf32> {tile.name = "a"}) attributes {tile.kernel} {
  return
}

// -----

func.func @one_has_none(%a: !tile.view<?xf32> {tile.name = "a"}) attributes {tile.kernel, tile_gpu.threads = 32} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{makes a tile without a layout: expected assign-layouts to have run}}
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x64xf32>
  return
}

// -----

#even = #tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>, columns = <64, class = 1, bits = [0 : 2, 1 : 4, 2 : 8, 3 : 16, 4 : 32], offsets = [0, 1], run = 2>>
#odd = #tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>, columns = <64, class = 2, bits = [0 : 1, 1 : 2, 2 : 4, 3 : 8, 4 : 16], offsets = [0, 32], run = 1>>
func.func @meet(%a: !tile.view<?xf32> {tile.name = "a"}, %b: !tile.view<?xf32> {tile.name = "b", tile.written})
    attributes {tile.kernel, tile_gpu.threads = 32} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0] {tile_gpu.layout = #even} : !tile.view<?xf32> -> tensor<1x64xf32>
  // expected-error @below {{has tiles of different layouts that meet along axis 1}}
  %y = arith.addf %x, %x {tile_gpu.layout = #odd} : tensor<1x64xf32>
  tile.store %y, %b[%c0] : tensor<1x64xf32>, !tile.view<?xf32>
  return
}

// -----

// Multiply-adds leave runs of four.
#ones = #tile_gpu.layout<rows = <8, class = 1, bits = [3 : 1, 4 : 2], offsets = [0, 4], run = 1>, columns = <8, class = 2, bits = [0 : 1, 1 : 2, 2 : 4], offsets = [0], run = 1>>
func.func @accumulators(%a: !tile.view<?x?xf32> {tile.name = "a"}, %b: !tile.view<?x?xf32> {tile.name = "b"},
                        %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel, tile_gpu.threads = 32} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{has accumulators in a layout that its instructions do not leave them in}}
  %x = tile.contract %a[%c0] contracting 1, %b[%c0] contracting 1 {tile_gpu.layout = #ones}
      : !tile.view<?x?xf32>, !tile.view<?x?xf32> -> tensor<8x8xf32>
  tile.store %x, %c[%c0, %c0] : tensor<8x8xf32>, !tile.view<?x?xf32>
  return
}

// RUN: tile-opt %s --split-input-file --verify-diagnostics

// Position 32 has no holder: bit 4 moves as far as bit 3.
// expected-error @below {{expected each of 64 positions to have one holder}}
#twice = #tile_gpu.axis<64, bits = [0 : 2, 1 : 4, 2 : 8, 3 : 16, 4 : 16], offsets = [0, 1], run = 2>

// -----

// expected-error @below {{expected each of 64 positions to have one holder}}
#short = #tile_gpu.axis<64, bits = [0 : 2, 1 : 4, 2 : 8, 3 : 16], offsets = [0, 1], run = 2>

// -----

// expected-error @below {{expected different bits of a thread's number, 0 to 9, found 1}}
#same_bit = #tile_gpu.axis<4, bits = [1 : 1, 1 : 2], offsets = [0], run = 1>

// -----

// expected-error @below {{expected an extent of 1 to 1048576, and ascending offsets that are not negative}}
#before = #tile_gpu.axis<4, bits = [1 : 4], offsets = [-4, 0], run = 1>

// -----

// expected-error @below {{expected registers in runs of 2 adjacent positions}}
#torn = #tile_gpu.axis<4, bits = [1 : 1], offsets = [0, 2], run = 2>

// -----

// expected-error @below {{expected a class that is not negative, found -1}}
#class = #tile_gpu.axis<4, class = -1, bits = [], offsets = [0] x 4 by 1, run = 1>

// -----

// expected-error @below {{expected rows and columns to have different bits of the thread's number}}
#both = #tile_gpu.layout<rows = <2, bits = [0 : 1], offsets = [0], run = 1>, columns = <2, bits = [0 : 1], offsets = [0], run = 1>>

// -----

#layout = #tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>, columns = <32, bits = [0 : 1, 1 : 2, 2 : 4, 3 : 8, 4 : 16], offsets = [0], run = 1>>
func.func @size(%a: !tile.view<?xf32> {tile.name = "a"}) attributes {tile.kernel, tile_gpu.threads = 32} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected a layout of 1x64, found one of 1x32}}
  %x = tile.load %a[%c0] {tile_gpu.layout = #layout} : !tile.view<?xf32> -> tensor<1x64xf32>
  return
}

// -----

#layout = #tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>, columns = <64, bits = [5 : 1], offsets = [0] x 32 by 2, run = 1>>
func.func @threads(%a: !tile.view<?xf32> {tile.name = "a"}) attributes {tile.kernel, tile_gpu.threads = 32} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected a layout of 32 threads, found one of more}}
  %x = tile.load %a[%c0] {tile_gpu.layout = #layout} : !tile.view<?xf32> -> tensor<1x64xf32>
  return
}

// -----

#layout = #tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>, columns = <64, bits = [4 : 1], offsets = [0] x 32 by 2, run = 1>>
func.func @no_threads(%a: !tile.view<?xf32> {tile.name = "a"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected 'tile_gpu.threads' on the kernel of a layout}}
  %x = tile.load %a[%c0] {tile_gpu.layout = #layout} : !tile.view<?xf32> -> tensor<1x64xf32>
  return
}

// -----

// expected-error @below {{expected 'tile_gpu.threads' of 32, 64, … or 1024 on a kernel}}
func.func @odd_threads() attributes {tile.kernel, tile_gpu.threads = 48} {
  return
}

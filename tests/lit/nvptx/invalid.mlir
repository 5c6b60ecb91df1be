// RUN: tile-opt %s --plan-warps --assign-layouts --lower-to-threads --split-input-file --verify-diagnostics

func.func @long(%a: !tile.view<?xf32> {tile.name = "a"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %n = tile.dim %a, 0 : !tile.view<?xf32>
  // expected-error @below {{makes a long tile; expected stream-rows to have run}}
  %x = tile.load %a[%c0] size %n : !tile.view<?xf32> -> tensor<1x?xf32>
  return
}

// -----

func.func @wide(%a: !tile.view<?xf32> {tile.name = "a"}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{makes a tile of 1x1048576; expected at most 524288 rows or columns: use smaller blocks}}
  %x = tile.load %a[%c0] : !tile.view<?xf32> -> tensor<1x1048576xf32>
  return
}

// -----

// expected-error @below {{needs 139264 bytes of shared memory, more than the 101376 of the target: use smaller blocks}}
func.func @large(%a: !tile.view<?x?xf32> {tile.name = "a"}, %c: !tile.view<?x?xf32> {tile.name = "c", tile.written})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %x = tile.load %a[%c0, %c0] : !tile.view<?x?xf32> -> tensor<128x128xf32>
  %z = tile.dot %x, %x : tensor<128x128xf32>, tensor<128x128xf32>
  tile.store %z, %c[%c0, %c0] : tensor<128x128xf32>, !tile.view<?x?xf32>
  return
}

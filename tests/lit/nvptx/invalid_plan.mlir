// RUN: tile-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected at least two stages, found 1}}
func.func @stages() attributes {tile.kernel, tile_gpu.warps = #tile_gpu.warp_plan<pingPong, stages = 1, rows = 64, columns = 64>} {
  return
}

// -----

func.func @boxes() attributes {tile.kernel, tile_gpu.warps =
    // expected-error @below {{expected no boxes, or two and more, found 1}}
    #tile_gpu.warp_plan<pingPong, stages = 4, rows = 128, columns = 128, boxes = 1>} {
  return
}

// -----

// expected-error @below {{expected roles to be cooperative or pingPong, found alike}}
func.func @roles() attributes {tile.kernel, tile_gpu.warps = #tile_gpu.warp_plan<alike, stages = 2>} {
  return
}

// -----

// expected-error @below {{a plan has no 'warps'}}
func.func @field() attributes {tile.kernel, tile_gpu.warps = #tile_gpu.warp_plan<pingPong, warps = 2>} {
  return
}

// -----

// expected-error @below {{expected one product of views for 'tile_gpu.warps', found 0 products}}
func.func @no_product()
    attributes {tile.kernel, tile_gpu.warps = #tile_gpu.warp_plan<pingPong, stages = 4, rows = 64, columns = 64>} {
  return
}

// -----

// expected-error @below {{expected 'tile_gpu.warps' of a product of 128x128, found 128x64}}
func.func @shape(%a: !tile.view<?x?xbf16> {tile.name = "a"})
    attributes {tile.kernel, tile_gpu.warps = #tile_gpu.warp_plan<pingPong, stages = 4, rows = 128, columns = 64>} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 1, %a[%c0] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  return
}

// -----

// expected-error @below {{expected 1 stores with 'tile_gpu.boxed', found 0}}
func.func @store(%a: !tile.view<?x?xbf16> {tile.name = "a"}) attributes {tile.kernel, tile_gpu.warps =
    #tile_gpu.warp_plan<pingPong, stages = 4, rows = 128, columns = 128, boxes = 2>} {
  %c0 = arith.constant 0 : index
  %x = tile.contract %a[%c0] contracting 1, %a[%c0] contracting 1
      : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<128x128xf32>
  return
}

// -----

// expected-error @below {{expected 'tile_gpu.warps' on a kernel}}
func.func @no_kernel() attributes {tile_gpu.warps = #tile_gpu.alike<"asked for">} {
  return
}

// -----

func.func @not_a_store() {
  // expected-error @below {{expected 'tile_gpu.boxed' to be a unit attribute of a store of a block}}
  %c0 = arith.constant {tile_gpu.boxed} 0 : index
  return
}

// -----

// expected-error @below {{has an attribute that the dialect does not know: "tile_gpu.wraps"}}
func.func @unknown() attributes {tile_gpu.wraps} {
  return
}

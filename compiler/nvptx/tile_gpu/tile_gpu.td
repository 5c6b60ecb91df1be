#ifndef TILEWRIGHT_NVPTX_TILE_GPU_TD
#define TILEWRIGHT_NVPTX_TILE_GPU_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TileGpu_Dialect : Dialect {
  let name = "tile_gpu";
  let cppNamespace = "::tilewright::nvptx";
  let summary = "what is decided about a tile kernel before it becomes the program of one thread";
  let description = [{
    Attributes, and one op. Passes write them on tile IR, `lower-to-threads` reads them, and nothing of them is left
    behind it.

    - `tile_gpu.warps` on a kernel: a `#tile_gpu.warp_plan`, or `#tile_gpu.alike` and why. Without it, all warps of a
      CTA do the same.
    - `tile_gpu.boxed` on a store: it is the one that the copy engine (TMA) makes.
    - `tile_gpu.threads` on a kernel: how many threads of a CTA share its tiles.
    - `tile_gpu.layout` on an op that makes tiles: the `#tile_gpu.layout` of its result; of several, an array of them.
      A loop's tiles have in its body the layouts of its results.
  }];
  let hasOperationAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

class TileGpu_Attr<string name, string attributeMnemonic> : AttrDef<TileGpu_Dialect, name> {
  let mnemonic = attributeMnemonic;
}

def TileGpu_WarpPlanAttr : TileGpu_Attr<"WarpPlan", "warp_plan"> {
  let summary = "what each warp of a CTA does";
  let description = [{
    The roles, and what else `struct WarpPlan` says. Numbers that are as in a new plan, and flags that are not set, are
    left out.

    Example: `#tile_gpu.warp_plan<pingPong, stages = 4, rows = 128, columns = 192, boxes = 4>`
  }];
  let parameters = (ins "WarpPlan":$plan);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def TileGpu_AlikeAttr : TileGpu_Attr<"Alike", "alike"> {
  let summary = "all warps of a CTA do the same, and why";
  let description = [{
    Example: `#tile_gpu.alike<"asked for">`
  }];
  let parameters = (ins StringRefParameter<"a reason, for people">:$reason);
  let assemblyFormat = "`<` $reason `>`";
}

def TileGpu_AxisMap : AttrParameter<"::tilewright::layout::AxisMap", "who holds which positions",
                                    "const ::tilewright::layout::AxisMap &">;

def TileGpu_AxisAttr : TileGpu_Attr<"Axis", "axis"> {
  let summary = "who holds which positions of a tile's axis";
  let description = [{
    As `layout::AxisMap` says: the axis's extent; how far each bit of the thread's number moves along it; the offsets of
    a thread's registers, here 0, 8, 16, 24; how many of them are adjacent. Each position has one holder.

    `class` numbers the kernel's *axis classes*: axes of tiles that meet element by element have one. Two classes may
    have equal maps; what is done along them stays apart. Axes of one element have class 0, which is not printed.

    Example: `#tile_gpu.axis<64, class = 1, bits = [2 : 1, 3 : 2, 4 : 4, 5 : 32], offsets = [0] x 4 by 8, run = 1>`
  }];
  let parameters = (ins "int64_t":$axisClass, TileGpu_AxisMap:$map);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def TileGpu_LayoutAttr : TileGpu_Attr<"Layout", "layout"> {
  let summary = "who holds which elements of a tile";
  let description = [{
    A map for its rows and one for its columns, which have different bits of the thread's number.

    Example: `#tile_gpu.layout<rows = <1, bits = [], offsets = [0], run = 1>, columns = <…>>`
  }];
  let parameters = (ins "AxisAttr":$rows, "AxisAttr":$columns);
  let assemblyFormat = "`<` `rows` `=` $rows `,` `columns` `=` $columns `>`";
  let genVerifyDecl = 1;
}

def TileGpu_ConvertLayoutOp : Op<TileGpu_Dialect, "convert_layout", [Pure, SameOperandsAndResultType]> {
  let summary = "the same tile, held by threads in another layout";
  let description = [{
    `assign-layouts` makes one behind a product whose instructions leave its result in another layout than the tiles have
    that it meets. Values go through shared memory.

    Example: `%y = tile_gpu.convert_layout %x {tile_gpu.layout = #layout1} : tensor<128x64xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

#endif

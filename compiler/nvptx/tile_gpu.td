#ifndef TILEWRIGHT_NVPTX_TILE_GPU_TD
#define TILEWRIGHT_NVPTX_TILE_GPU_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def TileGpu_Dialect : Dialect {
  let name = "tile_gpu";
  let cppNamespace = "::tilewright::nvptx";
  let summary = "what is decided about a tile kernel before it becomes the program of one thread";
  let description = [{
    Attributes alone. Passes write them on tile IR, `lower-to-threads` reads them, and nothing of them is left behind it.

    - `tile_gpu.warps` on a kernel: a `#tile_gpu.warp_plan`, or `#tile_gpu.alike` and why. Without it, all warps of a
      CTA do the same.
    - `tile_gpu.boxed` on a store: it is the one that the copy engine (TMA) makes.
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

    Example: `#tile_gpu.warp_plan<pingPong, stages = 4, rows = 128, columns = 192, boxedStore>`
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

#endif

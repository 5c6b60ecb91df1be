#ifndef TILEWRIGHT_TILE_DIALECT_TD
#define TILEWRIGHT_TILE_DIALECT_TD

include "mlir/IR/OpBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::tilewright::tile";
  let summary = "Kernels on blocks of numbers";
  let description = [{
    What upstream `arith`, `math` and `scf` lack in order to say what one program of a kernel computes: views of
    memory, blocks loaded from and stored to them, and the operations that mix elements of a block.

    **Tiles.** A tile is a builtin rank-2 tensor: R×C, R×1, 1×C or 1×1. Its rows are static; columns are static, or
    `?` in a *long* tile, which covers whole rows of a view until `stream-rows` cuts it into static blocks. A tile of
    several operands has one width; widths of long tiles come from `size` operands.

    **Kernels.** A `func.func` with the unit attribute `tile.kernel` is a kernel. Its arguments are views, `index` and
    `f32`; each has `tile.name = "x"`, and `tile.written` when the kernel stores to it. `tile.grid` holds, for each of
    0 to 3 grid axes, `array<i64: argument, dim, block>`: ceil(extent / block) programs, where extent is dimension
    `dim` of a view argument, or the value of an `index` argument.

    No operation says how data move or which instruction multiplies: that is each target's lowering's choice.
  }];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = "void registerTypes();";
}

#endif

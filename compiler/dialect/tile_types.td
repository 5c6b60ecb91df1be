#ifndef TILEWRIGHT_TILE_TYPES_TD
#define TILEWRIGHT_TILE_TYPES_TD

include "compiler/dialect/tile_dialect.td"
include "mlir/IR/AttrTypeBase.td"

def Tile_ViewType : TypeDef<Tile_Dialect, "View"> {
  let mnemonic = "view";
  let summary = "a view of memory, !tile.view<…>";
  let description = [{
    A tensor in memory: base, sizes, stride of its rows. Rank 1 or 2, elements f32, bf16, f16, i32 or i64; all sizes
    are known at run time. Elements of a row are adjacent, rows are a run-time stride apart. A view and what is
    narrowed or reinterpreted from it share memory. Views of different arguments share none that either writes. The
    exception is one tensor as two arguments of one type, which a kernel overwrites in place: every row is loaded
    before it is stored, at the same columns.

    Example: `!tile.view<?x?xbf16>`, `!tile.view<?xi32>`.
  }];
  let parameters = (ins "unsigned":$rank, "::mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

// Type constraints of tiles; what each accepts is in tile_ops.h.

class Tile_Constraint<string predicate, string description>
    : Type<CPred<"::tilewright::tile::" # predicate # "($_self)">, description, "::mlir::RankedTensorType">;

def Tile_AnyTile : Tile_Constraint<"isTile",
    "a tile (a rank-2 tensor with static rows, static or ? columns, of f32, bf16, f16, i64, i32 or i1)">;
def Tile_FloatTile : Tile_Constraint<"isFloatTile", "a tile of f32, bf16 or f16">;
def Tile_F32Tile : Tile_Constraint<"isF32Tile", "a tile of f32">;
def Tile_I32Tile : Tile_Constraint<"isI32Tile", "a tile of i32">;
def Tile_NumberTile : Tile_Constraint<"isNumberTile", "a tile of f32, i32 or i64">;
def Tile_Scalar : Tile_Constraint<"isScalarTile", "a 1x1 tile of f32, i64, i32 or i1">;
def Tile_Column : Tile_Constraint<"isColumnTile", "a tile of one column, tensor<Rx1xT>">;
def Tile_IndexColumn : Tile_Constraint<"isIndexColumn", "a column of indices, tensor<Rx1xi32>">;

#endif

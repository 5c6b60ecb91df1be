#ifndef TILEWRIGHT_TILE_OPS_TD
#define TILEWRIGHT_TILE_OPS_TD

include "compiler/dialect/tile_types.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

defvar Infers = InferTypeOpAdaptor;
// Views are no memrefs: loads and stores touch "memory", so that a store orders every load around it.
defvar Loads = MemoryEffects<[MemRead]>;
defvar Stores = MemoryEffects<[MemWrite]>;

def Tile_GridAxisAttr : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<2>]>;
def Tile_AxisAttr : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<1>]>;

def Tile_ReductionKind : I32EnumAttr<"ReductionKind", "how a reduction combines two elements", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"min", 2>
]> {
  let cppNamespace = "::tilewright::tile";
}

// ---------------------------------------------------------------------------------------------------------------------
// Programs and views
// ---------------------------------------------------------------------------------------------------------------------

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "this program's number along a grid axis";
  let description = [{
    Axis 0 varies fastest. Along an axis that the launch does not have, the number is 0.

    Example: `%p = tile.program_id 0`
  }];
  let arguments = (ins Tile_GridAxisAttr:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$axis attr-dict";
}

def Tile_DimOp : Tile_Op<"dim", [Pure]> {
  let summary = "a view's size along an axis";
  let description = [{
    Example: `%n = tile.dim %x, 0 : !tile.view<?x?xbf16>`
  }];
  let arguments = (ins Tile_ViewType:$view, Tile_AxisAttr:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$view `,` $axis attr-dict `:` custom<View>(type($view))";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_NarrowOp : Tile_Op<"narrow", [Pure, AllTypesMatch<["view", "result"]>]> {
  let summary = "the first positions of a view's axis";
  let description = [{
    The same memory, with `size` clamped to [0, size of `view`] as its size along `axis`: a view never grows.

    Example: `%y = tile.narrow %x, 0 to %n : !tile.view<?x?xbf16>`
  }];
  let arguments = (ins Tile_ViewType:$view, Tile_AxisAttr:$axis, Index:$size);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = "$view `,` $axis `to` $size attr-dict `:` custom<View>(type($view))";
  let hasVerifier = 1;
}

def Tile_ReinterpretOp : Tile_Op<"reinterpret", [Pure]> {
  let summary = "the same memory as elements of another type";
  let description = [{
    Each row's bytes, seen as elements of the result's type: its size along the last axis, and the stride of its rows,
    are those of `view` times the bytes of an element there over those of an element here. A size is rounded down. The
    stride must come out even, and memory must be aligned as the result's elements need.

    Example: `%y = tile.reinterpret %x : !tile.view<?x?xbf16> to !tile.view<?x?xf32>`
  }];
  let arguments = (ins Tile_ViewType:$view);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = "$view attr-dict `:` custom<View>(type($view)) `to` custom<View>(type($result))";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_InteriorOp : Tile_Op<"interior", [Pure]> {
  let summary = "leading columns that need no care";
  let description = [{
    How many leading columns, a multiple of `step` and at most `width`, lie inside all `views` and can be reached with
    the widest accesses of the target. How many those are is the target's choice; none is always a right answer. Loads
    and stores marked `interior`, of blocks of `step` columns that begin at a multiple of `step`, touch no other
    columns, and no row outside their view.

    Example:
    ```mlir
    %k = tile.interior %n step 4096 of %x, %y : !tile.view<?x?xbf16>, !tile.view<?xf32>
    scf.for %j = %zero to %k step %c4096 {
      %t = tile.load %x[%i, %j] {interior} : !tile.view<?x?xbf16> -> tensor<1x4096xbf16>
      …
    ```
  }];
  let arguments = (ins Index:$width, ConfinedAttr<I64Attr, [IntPositive]>:$step, Variadic<Tile_ViewType>:$views);
  let results = (outs Index:$result);
  let assemblyFormat = "$width `step` $step `of` $views attr-dict `:` type($views)";
}

// ---------------------------------------------------------------------------------------------------------------------
// Partners: a program may be run by several, which share the columns of its rows
// ---------------------------------------------------------------------------------------------------------------------

def Tile_PartnerOp : Tile_Op<"partner", [Pure]> {
  let summary = "this partner's number";
  let description = [{
    From 0; a kernel's `tile.partners` says how many there are.

    Example: `%p = tile.partner`
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def Tile_OnChipOp : Tile_Op<"on_chip", [MemoryEffects<[MemAlloc]>]> {
  let summary = "memory of a partner's own";
  let description = [{
    A vector that lasts as long as the program runs, in memory as fast as the target has. What is in it beforehand is
    not defined.

    Example: `%v = tile.on_chip 32768 : !tile.view<?xbf16>`
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$size);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = "$size attr-dict `:` custom<View>(type($result))";
  let hasVerifier = 1;
}

def Tile_ExchangeOp : Tile_Op<"exchange", [MemoryEffects<[MemRead, MemWrite]>, SameVariadicOperandSize]> {
  let summary = "partners tell each other numbers";
  let description = [{
    Partner p's `values` become element p of `places`, which are on chip, of every partner. All partners come here; what
    any of them did to memory before, all see behind it.

    Example:
    ```mlir
    %all = tile.on_chip 4 : !tile.view<?xf32>
    tile.exchange %sum to %all : tensor<1x1xf32> to !tile.view<?xf32>
    %sums = tile.load %all[%zero] : !tile.view<?xf32> -> tensor<1x4xf32>
    ```
  }];
  let arguments = (ins Variadic<Tile_Scalar>:$values, Variadic<Tile_ViewType>:$places);
  let assemblyFormat = "($values^ `to` $places)? attr-dict (`:` type($values)^ `to` type($places))?";
  let hasVerifier = 1;
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory
// ---------------------------------------------------------------------------------------------------------------------

def Tile_LoadOp : Tile_Op<"load", [Loads, AttrSizedOperandSegments]> {
  let summary = "loads a block of a view";
  let description = [{
    result(r, c) = view(i + r, j + c); a vector's block is a column (view(i + r)) or a row (view(i + c)) by the
    result's type, and 1×1 is either. Elements outside the view are 0. A long result has `size` columns. Offsets may
    have any value; negative ones are outside.

    Example:
    ```mlir
    %0 = tile.load %x[%i, %j] : !tile.view<?x?xbf16> -> tensor<8x64xbf16>
    %1 = tile.load %x[%i, %zero] size %n : !tile.view<?x?xbf16> -> tensor<8x?xbf16>
    %2 = tile.load %bias[%j] : !tile.view<?xf32> -> tensor<1x64xf32>
    ```
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<Index>:$offsets, Optional<Index>:$size,
                       UnitAttr:$interior);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $view `[` $offsets `]` (`size` $size^)? attr-dict `:` custom<View>(type($view)) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$view, "::mlir::ValueRange":$offsets), [{
    build($_builder, $_state, result, view, offsets, ::mlir::Value());
  }]>];
  let hasVerifier = 1;
}

def Tile_LoadRowsOp : Tile_Op<"load_rows", [Loads, AttrSizedOperandSegments]> {
  let summary = "loads rows that are numbered by a tile";
  let description = [{
    result(r, c) = view(rows(r), column + c); of a vector, result(r, 0) = view(rows(r)). Elements outside the view
    are 0, so a number outside it gives a row of zeros. A long result has `size` columns.

    Example:
    ```mlir
    %0 = tile.load_rows %x[%rows, %j] : !tile.view<?x?xbf16>, tensor<8x1xi32> -> tensor<8x64xbf16>
    %1 = tile.load_rows %v[%rows] : !tile.view<?xf32>, tensor<8x1xi32> -> tensor<8x1xf32>
    ```
  }];
  let arguments = (ins Tile_ViewType:$view, Tile_IndexColumn:$rows, Optional<Index>:$column, Optional<Index>:$size,
                       UnitAttr:$interior);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $view `[` $rows (`,` $column^)? `]` (`size` $size^)? attr-dict
    `:` custom<View>(type($view)) `,` type($rows) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$view, "::mlir::Value":$rows,
                             "::mlir::Value":$column), [{
    build($_builder, $_state, result, view, rows, column, ::mlir::Value());
  }]>];
  let hasVerifier = 1;
}

def Tile_LoadElementsOp : Tile_Op<"load_elements", [Loads]> {
  let summary = "loads one element of each row";
  let description = [{
    result(r, 0) = view(row + r, columns(r)), 0 where that is outside the view.

    Example: `%0 = tile.load_elements %x[%i, %columns] : !tile.view<?x?xbf16>, tensor<8x1xi32> -> tensor<8x1xbf16>`
  }];
  let arguments = (ins Tile_ViewType:$view, Index:$row, Tile_IndexColumn:$columns);
  let results = (outs Tile_Column:$result);
  let assemblyFormat = [{
    $view `[` $row `,` $columns `]` attr-dict `:` custom<View>(type($view)) `,` type($columns) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [Stores]> {
  let summary = "stores a block into a view";
  let description = [{
    view(i + r, j + c) = value(r, c); a vector takes a column or a row. What lies outside the view is dropped.

    Example: `tile.store %t, %y[%i, %j] : tensor<8x64xbf16>, !tile.view<?x?xbf16>`
  }];
  let arguments = (ins Tile_AnyTile:$value, Tile_ViewType:$view, Variadic<Index>:$offsets,
                       UnitAttr:$interior);
  let assemblyFormat = "$value `,` $view `[` $offsets `]` attr-dict `:` type($value) `,` custom<View>(type($view))";
  let hasVerifier = 1;
}

def Tile_StoreRowsOp : Tile_Op<"store_rows", [Stores]> {
  let summary = "stores rows where a tile's numbers say";
  let description = [{
    view(rows(r), column + c) = value(r, c); of a vector, view(rows(r)) = value(r, 0). What lies outside the view is
    dropped. Where two rows have one number, either may win.

    Example: `tile.store_rows %t, %y[%rows, %j] : tensor<8x64xbf16>, !tile.view<?x?xbf16>, tensor<8x1xi32>`
  }];
  let arguments = (ins Tile_AnyTile:$value, Tile_ViewType:$view, Tile_IndexColumn:$rows, Optional<Index>:$column,
                       UnitAttr:$interior);
  let assemblyFormat = [{
    $value `,` $view `[` $rows (`,` $column^)? `]` attr-dict
    `:` type($value) `,` custom<View>(type($view)) `,` type($rows)
  }];
  let hasVerifier = 1;
}

def Tile_ReduceAddOp : Tile_Op<"reduce_add", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds a block to a view";
  let description = [{
    view(i + r, j + c) += value(r, c), in the view's own type: f32, i32 or i64. What lies outside is dropped. No two
    programs of a launch add to one element, so the sum does not depend on their order.

    Example: `tile.reduce_add %t, %y[%i, %j] : tensor<8x64xf32>, !tile.view<?x?xf32>`
  }];
  let arguments = (ins Tile_NumberTile:$value, Tile_ViewType:$view, Variadic<Index>:$offsets,
                       UnitAttr:$interior);
  let assemblyFormat = "$value `,` $view `[` $offsets `]` attr-dict `:` type($value) `,` custom<View>(type($view))";
  let hasVerifier = 1;
}

// ---------------------------------------------------------------------------------------------------------------------
// Products
// ---------------------------------------------------------------------------------------------------------------------

def Tile_ContractOp : Tile_Op<"contract", [Loads]> {
  let summary = "the product of strips of two views";
  let description = [{
    The sum over the whole contracted axis, whose length K is a's size there:

        result(r, c) = Σ_k a(i + r, k) · b(j + c, k)        contracting 1, 1

    `contracting 0` swaps a view's subscripts: k counts its rows, the offset its columns. Elements outside a view are
    0. Products and their sum are f32; the order of the sum is the lowering's, the same in every run.

    `part p of n`: over a part of the axis only, as even as steps of 64 allow. With s = ⌈K / 64⌉ steps, k runs from
    64·⌊s p / n⌋ to 64·⌊s (p + 1) / n⌋, and to K at most.

    Example:
    ```mlir
    // x·wᵀ
    %z = tile.contract %x[%i] contracting 1, %w[%j] contracting 1
        : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<64x64xf32>
    // The %p-th third of it.
    %t = tile.contract %x[%i] contracting 1, %w[%j] contracting 1 part %p of 3
        : !tile.view<?x?xbf16>, !tile.view<?x?xbf16> -> tensor<64x64xf32>
    ```
  }];
  let arguments = (ins Tile_ViewType:$a, Index:$aOffset, Tile_AxisAttr:$aAxis,
                       Tile_ViewType:$b, Index:$bOffset, Tile_AxisAttr:$bAxis,
                       Optional<Index>:$part, DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$parts);
  let results = (outs Tile_F32Tile:$result);
  let assemblyFormat = [{
    $a `[` $aOffset `]` `contracting` $aAxis `,` $b `[` $bOffset `]` `contracting` $bAxis (`part` $part^ `of` $parts)?
    attr-dict `:` custom<View>(type($a)) `,` custom<View>(type($b)) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_DotOp : Tile_Op<"dot", [Pure, Infers]> {
  let summary = "the product of two tiles";
  let description = [{
    result(m, n) = Σ_k a(m, k) · b(k, n), products and sum in f32. Widened operands of one 16-bit type are taken as they
    were before, which tensor cores multiply.

    Example: `%0 = tile.dot %a, %b : tensor<8x16xf32>, tensor<16x32xf32>` gives tensor<8x32xf32>.
  }];
  let arguments = (ins Tile_FloatTile:$a, Tile_FloatTile:$b);
  let results = (outs Tile_F32Tile:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a) `,` type($b)";
  let hasCanonicalizeMethod = 1;
}

// ---------------------------------------------------------------------------------------------------------------------
// Integers
// ---------------------------------------------------------------------------------------------------------------------

def Tile_MulHighOp : Tile_Op<"mul_high", [Pure, Commutative, Elementwise, SameOperandsAndResultType]> {
  let summary = "the upper halves of products of unsigned numbers";
  let description = [{
    result(r, c) = ⌊a(r, c) · b(r, c) / 2³²⌋, where all are unsigned numbers of 32 bits.

    Example: `%0 = tile.mul_high %a, %b : tensor<8x64xi32>`
  }];
  let arguments = (ins Tile_I32Tile:$a, Tile_I32Tile:$b);
  let results = (outs Tile_I32Tile:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a)";
}

// ---------------------------------------------------------------------------------------------------------------------
// Shapes
// ---------------------------------------------------------------------------------------------------------------------

def Tile_IotaOp : Tile_Op<"iota", [Pure]> {
  let summary = "consecutive positions along an axis";
  let description = [{
    begin, begin + 1, … as i32: a column along axis 0, a row along axis 1. A long row has `size` of them.

    Example:
    ```mlir
    %0 = tile.iota %j along 1 : tensor<1x64xi32>
    %1 = tile.iota %zero along 1 size %n : tensor<1x?xi32>
    ```
  }];
  let arguments = (ins Index:$begin, Tile_AxisAttr:$axis, Optional<Index>:$size);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$begin `along` $axis (`size` $size^)? attr-dict `:` type($result)";
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$begin, "uint64_t":$axis), [{
    build($_builder, $_state, result, begin, axis, ::mlir::Value());
  }]>];
  let hasVerifier = 1;
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "repeats the only row or column of a tile";
  let description = [{
    Dimensions of size 1 may grow, others stay. `size` is the result's width when its columns grow from 1 to `?`.

    Example:
    ```mlir
    %0 = tile.broadcast %x : tensor<8x1xf32> -> tensor<8x64xf32>
    %1 = tile.broadcast %x size %n : tensor<8x1xf32> -> tensor<8x?xf32>
    ```
  }];
  let arguments = (ins Tile_AnyTile:$value, Optional<Index>:$size);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$value (`size` $size^)? attr-dict `:` type($value) `->` type($result)";
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$value), [{
    build($_builder, $_state, result, value, ::mlir::Value());
  }]>];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_TransposeOp : Tile_Op<"transpose", [Pure, Infers]> {
  let summary = "swaps rows and columns";
  let description = [{
    result(c, r) = value(r, c), of static tiles.

    Example: `%0 = tile.transpose %x : tensor<8x64xf32>` gives tensor<64x8xf32>.
  }];
  let arguments = (ins Tile_AnyTile:$value);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
  let hasFolder = 1;
}

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "a scalar as a 1x1 tile";
  let description = [{
    f32 stays f32 and i1 stays i1; an index becomes i64, or i32 of its low bits.

    Example: `%0 = tile.splat %n : index -> tensor<1x1xi32>`
  }];
  let arguments = (ins AnyTypeOf<[Index, F32, I1]>:$scalar);
  let results = (outs Tile_Scalar:$result);
  let assemblyFormat = "$scalar attr-dict `:` type($scalar) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ExtractOp : Tile_Op<"extract", [Pure, Infers]> {
  let summary = "the only element of a 1x1 tile";
  let description = [{
    f32 stays f32 and i1 stays i1; i32 and i64 become an index, with their sign.

    Example: `%0 = tile.extract %t : tensor<1x1xi32>` gives an index.
  }];
  let arguments = (ins Tile_Scalar:$value);
  let results = (outs AnyTypeOf<[Index, F32, I1]>:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows
// ---------------------------------------------------------------------------------------------------------------------

def Tile_ReduceOp : Tile_Op<"reduce", [Pure, Infers]> {
  let summary = "combines the elements of each row or column";
  let description = [{
    Along 1: R×C to R×1; along 0: R×C to 1×C. `max` and `min` are NaN where any element is; over no element they are
    -∞ and ∞ (the smallest and the largest integer), and `sum` is 0.

    Example: `%0 = tile.reduce sum, %x along 1 : tensor<8x64xf32>` gives tensor<8x1xf32>.
  }];
  let arguments = (ins Tile_ReductionKind:$kind, Tile_NumberTile:$value, Tile_AxisAttr:$axis);
  let results = (outs Tile_NumberTile:$result);
  let assemblyFormat = "$kind `,` $value `along` $axis attr-dict `:` type($value)";
}

def Tile_GatherOp : Tile_Op<"gather", [Pure, Infers]> {
  let summary = "picks one element of each row";
  let description = [{
    result(r, 0) = value(r, index(r)), 0 where the index lies outside the row.

    Example: `%0 = tile.gather %x[%index] : tensor<8x64xf32>, tensor<8x1xi32>` gives tensor<8x1xf32>.
  }];
  let arguments = (ins Tile_AnyTile:$value, Tile_IndexColumn:$index);
  let results = (outs Tile_Column:$result);
  let assemblyFormat = "$value `[` $index `]` attr-dict `:` type($value) `,` type($index)";
}

def Tile_ScatterOp : Tile_Op<"scatter", [Pure]> {
  let summary = "places one element in each row of zeros";
  let description = [{
    result(r, c) = value(r, 0) where c = index(r), else 0: the adjoint of `tile.gather`. A long result has `size`
    columns.

    Example: `%0 = tile.scatter %v at %index : tensor<8x1xf32>, tensor<8x1xi32> -> tensor<8x64xf32>`
  }];
  let arguments = (ins Tile_Column:$value, Tile_IndexColumn:$index, Optional<Index>:$size);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $value `at` $index (`size` $size^)? attr-dict `:` type($value) `,` type($index) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$value, "::mlir::Value":$index), [{
    build($_builder, $_state, result, value, index, ::mlir::Value());
  }]>];
  let hasVerifier = 1;
}

def Tile_LogSoftmaxOp : Tile_Op<"log_softmax", [Pure, SameOperandsAndResultType]> {
  let summary = "the logarithm of each row's softmax";
  let description = [{
    result(r, c) = x(r, c) - log Σ_k exp(x(r, k)), computed without overflow.

    Example: `%0 = tile.log_softmax %x : tensor<8x64xf32>`
  }];
  let arguments = (ins Tile_F32Tile:$value);
  let results = (outs Tile_F32Tile:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Tile_MaxSumExpOp : Tile_Op<"max_sum_exp", [Pure, Infers]> {
  let summary = "each row's maximum and its sum of exponentials";
  let description = [{
    max(r) = max_c x(r, c) and sum(r) = Σ_c exp(x(r, c) - max(r)), in one pass over the row. Where x is -∞, the term
    is 0 whatever the maximum: in a row of nothing but -∞, as over no element, they are -∞ and 0. A NaN or ∞ in the row
    gives a sum of NaN. Made by `online-softmax` only.

    Example: `%m, %s = tile.max_sum_exp %x : tensor<8x64xf32>` gives two tensor<8x1xf32>.
  }];
  let arguments = (ins Tile_F32Tile:$value);
  let results = (outs Tile_F32Tile:$max, Tile_F32Tile:$sum);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

#endif

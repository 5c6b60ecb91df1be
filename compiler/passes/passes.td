#ifndef TILEWRIGHT_PASSES_TD
#define TILEWRIGHT_PASSES_TD

include "mlir/Pass/PassBase.td"

class TilePass<string flag> : Pass<flag, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::tilewright::tile::TileDialect"];
}

def GatherToSelect : TilePass<"gather-to-select"> {
  let summary = "one element a row, without holding or reading the row again";
  let description = [{
        gather(x, i)               = Σ_c select(c = i, x, 0)
        scatter(v, i)              = select(c = i, v, 0)
        Σ_c scatter(v, i)          = v                                    where i is inside the row, else 0
        gather(f(x, a), i)         = f(gather(x, i), a)                   where i is inside the row, else 0
        gather(log_softmax(x), i)  = gather(x, i) - max(x) - log Σ exp(x - max(x))    likewise
        gather(load v[r, j], i)    = load_elements v[r, j + i]            where nothing else uses the row

    a has one number a row. It is moved out of f where it hangs on the whole row (a maximum, a sum), since the element
    could not be picked in the sweep that makes a. Selects, not products: an infinity or a NaN elsewhere in the row
    stays out.

    Before:
    ```mlir
    %p = tile.log_softmax %x : tensor<8x?xf32>
    %y = tile.gather %p[%i] : tensor<8x?xf32>, tensor<8x1xi32>
    ```
    After, but for the guard of i:
    ```mlir
    %at = arith.cmpi eq, %columns, %i_columns : tensor<8x?xi32>
    %picked = arith.select %at, %x, %zeros : tensor<8x?xi1>, tensor<8x?xf32>
    %z = tile.reduce sum, %picked along 1 : tensor<8x?xf32>
    %shifted = arith.subf %z, %max : tensor<8x1xf32>
    %y = arith.subf %shifted, %log_sum : tensor<8x1xf32>
    ```
  }];
}

def DecomposeSoftmax : TilePass<"decompose-softmax"> {
  let summary = "log_softmax in terms of a row's maximum and sum";
  let description = [{
        log_softmax(x) = (x - m) - log Σ_c exp(x - m)        m = max_c x

    The maximum goes first: an offset that is common to a row costs no digits.

    Before:
    ```mlir
    %p = tile.log_softmax %x : tensor<8x64xf32>
    ```
    After:
    ```mlir
    %m = tile.reduce max, %x along 1 : tensor<8x64xf32>
    %m_row = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
    %d = arith.subf %x, %m_row : tensor<8x64xf32>
    %e = math.exp %d : tensor<8x64xf32>
    %s = tile.reduce sum, %e along 1 : tensor<8x64xf32>
    %l = math.log %s : tensor<8x1xf32>
    %l_row = tile.broadcast %l : tensor<8x1xf32> -> tensor<8x64xf32>
    %p = arith.subf %d, %l_row : tensor<8x64xf32>
    ```
  }];
}

def OnlineSoftmax : TilePass<"online-softmax"> {
  let summary = "a row's maximum and its sum of exponentials in one pass";
  let description = [{
        m = max_c x,  s = Σ_c exp(x - m)        ->        m, s = max_sum_exp(x)

    Two passes over a row that need each other become one. Other users of exp(x - m) keep it, and take m from the new
    operation.

    Before:
    ```mlir
    %m = tile.reduce max, %x along 1 : tensor<8x64xf32>
    %m_row = tile.broadcast %m : tensor<8x1xf32> -> tensor<8x64xf32>
    %d = arith.subf %x, %m_row : tensor<8x64xf32>
    %e = math.exp %d : tensor<8x64xf32>
    %s = tile.reduce sum, %e along 1 : tensor<8x64xf32>
    ```
    After:
    ```mlir
    %m, %s = tile.max_sum_exp %x : tensor<8x64xf32>
    ```
  }];
}

def StreamRows : TilePass<"stream-rows"> {
  let summary = "long tiles as loops over static column blocks";
  let description = [{
        reduce(x)       :  a ← neutral;     for each block b:  a ← combine(a, reduce(b))
        max_sum_exp(x)  :  m ← -∞, s ← 0;   for each block b:  m' = max(m, max(b)),
                                                               s ← s·exp(m - m') + Σ exp(b - m'),  m ← m'

    A *sweep* is one loop over the columns of a row. What depends on a reduction of the row belongs to a later sweep
    than the reduction, and a long value that a later sweep needs is computed again there from its loads, so no row is
    ever held. All reductions and stores of one sweep share its loop. Columns past the end of the row are kept out of
    reductions by a select and out of memory by the bounds of the view.

    `max_sum_exp` of a static tile is expanded too: no target sees it. In both forms exp(x - m) counts as 0 where x and
    m are both -∞, so that a row of nothing but -∞ has m = -∞ and s = 0, as an empty row has; a NaN or +∞ in the row
    gives s = NaN.

    With `interior`, a sweep is two loops: the first over large blocks that lie inside the row and all views (see
    `tile.interior`) and need no masks, the second over the rest. Where positions are compared with one number for all
    rows, as by a scattered index, the block that holds it is part of the rest: in all others the comparison is
    decided. With `cut-left-out` it is cut into blocks of the rest, and the comparison is decided in all but one.
    These have a loop with the blocks of the rest behind the interior that lie inside the row: no masks there, either.

    With `kept-exponentials`, the sweep of a row's maximum and sum keeps each exp(x - m) of the interior, m being the
    largest number so far (or with `lazy-shift` the shift), and m for each block. A later sweep has exp(x - a) from
    them, where a is the maximum of the row, or the larger one of it and another number: exp(x - m)·exp(m - a). Where
    the block of the compared position is apart, x and what is summed need to agree in all other columns only. In a row
    with a +∞, which has no sum, exp(x - a) of a finite x may be NaN in place of 0.

    With `lazy-shift`, max_sum_exp of one row takes a block of the interior with a shift a that is there before it, the
    first block's maximum, and goes over the block again with its own only where it has a number above a + 16:

        s ← s + Σ exp(b - a),  m ← max(m, max(b))        at the end  s ← s·exp(a - m)

    Sweeps must not change what the kernel says. A store moves to a later sweep when the row it overwrites is still to
    be loaded again; where there is no such order it is an error. After the pass no tensor is dynamic, or it has failed.

    Before:
    ```mlir
    %x = tile.load %v[%i, %zero] size %n : !tile.view<?x?xf32> -> tensor<8x?xf32>
    %s = tile.reduce sum, %x along 1 : tensor<8x?xf32>
    ```
    After:
    ```mlir
    %s = scf.for %c = %zero to %n step %c128 iter_args(%a = %zeros) -> (tensor<8x1xf32>) {
      %j = arith.addi %zero, %c : index
      %x = tile.load %v[%i, %j] : !tile.view<?x?xf32> -> tensor<8x128xf32>
      %inside = arith.select %mask, %x, %neutral : tensor<8x128xi1>, tensor<8x128xf32>   // column < n
      %b = tile.reduce sum, %inside along 1 : tensor<8x128xf32>
      %t = arith.addf %a, %b : tensor<8x1xf32>
      scf.yield %t : tensor<8x1xf32>
    }
    ```
  }];
  let options = [Option<"block", "block", "int64_t", "0",
      "columns of a block; 0: by `bytes`">,
    Option<"bytes", "bytes", "int64_t", "0",
      "that a block loads, but 64 columns at least; 0: of 1024 elements">,
    Option<"interior", "interior", "int64_t", "0",
      "so many blocks are one in the loop over the row's interior; 0: no such loop">,
    Option<"keptBytes", "kept-bytes", "int64_t", "0",
      "of a row's interior that each partner keeps on chip, from the first sweep that loads them for the others">,
    Option<"keptExponentials", "kept-exponentials", "int64_t", "0",
      "of a row's interior that are kept on chip, from the sweep that adds them up for those behind it">,
    Option<"cutLeftOut", "cut-left-out", "bool", "false",
      "the interior's block with the position that rows compare theirs with is cut into blocks of the rest, which have "
      "a loop without masks, as have those behind the interior">,
    Option<"lazyShift", "lazy-shift", "bool", "false",
      "a row's sum of exponentials goes over the interior once, with a shift that is known before each block">,
    Option<"partners", "partners", "int64_t", "1", "that share the columns of a program's only row">];
}

#endif

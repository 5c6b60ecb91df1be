#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"
#include "kernels/loss/kernels.h"

namespace tilewright::lce {

/// The kernels of linear cross entropy, one a file. Rows that are not ignored, the *valid* rows, are worked
/// on in chunks; tensors of a chunk have C rows, of which the last may hold no valid row. Symbols as in the
/// README: E = exp(z - a) without the target's column, a = anchor, S = row sum of E.

/// Rows and columns of the output block of one program.
struct Block {
  int64_t rows = 0, columns = 0;
  std::string str() const { return std::to_string(rows) + "x" + std::to_string(columns); }
};

/// Copies a chunk's rows of X, and computes their targets' logits, which are the first anchors. redo = 1 for
/// valid rows.
///
/// (x N×H, w V×H, row C, label C, out xc C×H, out target C, out anchor C, out redo C)
Kernel gatherRows(ElementType element);

/// One block of E, its row sums and its logits' row maxima; only where a row asks for it by `redo`. `stored`
/// are the sums of E as it is stored, rounded.
///
/// (xc C×H, w V×H, label C, anchor C, redo C, out sums C×T, out tops C×T[, out e C×V, out stored C×T]), T
/// blocks of columns
struct ForwardSpec {
  ElementType element;
  std::optional<ElementType> exponentials; ///< their type; none when no gradient is wanted
  Block block;
};
Kernel forward(const ForwardSpec &spec);

/// Where S is out of range, the anchor becomes the row's largest logit, and redo stays 1; it is 0 elsewhere.
///
/// (sums C×T, tops C×T, out anchor C, out redo C)
Kernel checkAnchor();

/// Losses, and the factors of the gradients: r_i = g_i v_i, t_i = g_i (p_iy - 1), xs = r x.
///
/// (sums C×T, target C, anchor C, row C, out row_loss N, out lse N
///  [, stored C×T, summary 1[, grad_output 1 or N], xc C×H, out scale C, out one_hot C, out xs C×H])
struct CombineSpec {
  struct Gradients {
    ElementType element;      ///< of xc
    ElementType exponentials; ///< of xs
    UpstreamSpec upstream;
  };
  std::optional<Gradients> gradients;
};
Kernel combine(const CombineSpec &spec);

/// Sorts a chunk's rows by label: order[s] = row at sorted position s, run[s] = length of the run of equal
/// labels that starts there (else 0), slot[label] = where its run starts (-1 beforehand).
///
/// (label C, out order C, out run C, out slot V)
Kernel rankLabels();

/// u[s] = Σ t_i x_i over the run that starts at sorted position s: the one-hot part of dW, of each label that
/// occurs.
///
/// (xc C×H, one_hot C, order C, run C, out u C×H)
Kernel oneHotSum(ElementType element, int64_t columns);

/// dX_i = r_i (E W)_i + t_i w_y.
///
/// (e C×V, w V×H, label C, scale C, one_hot C, row C, out dx N×H)
struct DHiddenSpec {
  ElementType element, exponentials, output;
  Block block;
};
Kernel dHidden(const DHiddenSpec &spec);

/// A chunk's part of dW = Eᵀ·xs + the rows of u.
///
/// (e C×V, xs C×H, u C×H, slot V, summary 1, first, [partial V×H,] out dw V×H)
struct DWeightSpec {
  enum class Mode {
    store,  ///< dW = part
    add,    ///< dW += part, in fp32
    finish, ///< dW = partial + part
  };
  ElementType exponentials, output;
  Mode mode;
  Block block;
};
Kernel dWeight(const DWeightSpec &spec);

} // namespace tilewright::lce

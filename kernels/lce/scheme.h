#pragma once

#include <string>
#include <utility>

#include "kernels/lce/forward_kernels.h"
#include "kernels/lce/request.h"

namespace tilewright::lce {

/// Rows of which a GPU compares all pairs in no more time than one launch takes.
constexpr int64_t kFewRows = 2048;

/// The products: the logits, dX and dW; and the logits once more, of a slice of the classes.
enum class ProductKind { forward, dHidden, dWeight, again };
constexpr bool isOfLogits(ProductKind kind) {
  return kind == ProductKind::forward || kind == ProductKind::again;
}

/// The mathematics that is chosen for a request: which products and passes, what E is made of, which sums. It
/// follows from the request and the variant alone; no device and no tile enters.
struct Scheme : Request {
  bool recompute =
      false; ///< the variant: dW and db are made once all losses are known, of logits computed again

  /// The first pass makes losses and dX of one chunk of rows after the other, a second one dW and db of all
  /// rows, one slice of the classes after the other.
  bool hasSecondPass = false;
  bool keepsExponentials = false; ///< a chunk's E is kept
  /// The type of E. bf16 has fp32's range, which the label's logit as the shift needs. f16 has not (see
  /// `Shifts::raised`), and where E becomes gradients of logits it holds them in units of their row, unless
  /// they are divided by norms, which may be anything.
  ElementType exponentials = ElementType::f32;
  FixUp fixUp = FixUp::none;   ///< what E becomes before the products of the gradients
  bool scalesRows = false;     ///< a chunk's rows of X are multiplied for dW
  bool normalisesRows = false; ///< and dW is multiplied once more: neither these rows nor E have f32's range
  bool scalesInPlace = false;  ///< either, where nothing asks afterwards for what the rows were
  bool scalesExponentials = false; ///< what db is made of has still to be multiplied by a factor of its row
  bool isUniformRankOne =
      false; ///< the gradient that all classes of a row get alike is added to the products
  bool hasClassFactor = false;
  PerRowSum<bool> rowSums = {};  ///< those that the terms and the outputs need
  bool wantsTotalsAlone = false; ///< the forward product tells sums and nothing else
  bool hasTotals = false;        ///< S itself is known before losses are, not the sums of blocks alone
  bool joinsSums = false;        ///< of blocks that may have shifts of their own
  bool joinsWithLosses = false;  ///< of few rows the kernel of the losses does so
  /// Few rows need no launch between logits and losses: the kernel of the logits finds sums that are out of
  /// range, and that of the losses adds up the blocks' sums.
  bool checksWithLogits = false;
  /// The kernel of the losses finishes rows of E, so that the logits' product has less to do for each: it
  /// sums up as stored what matters of a row, and gives it one shift where blocks took their own.
  bool finishesRows = false;
  bool repairsShifts = false; ///< rows whose sum is out of range get another shift, and their E is made again
  bool shiftsByLse =
      false; ///< a backward call: each row's saved lse is its shift, so that all E are at most 1
  Shifts shifts = Shifts::ofRows; ///< what a chunk's exponentials are first shifted by
  bool transposes = false; ///< dX and dW may take transposed matrices: TF32 in one pass (see `isTransposed`)
  bool flushesSmall = false; ///< exponentials below 2^-30 are stored as 0: where E is rounded anyway

  /// Whether dW or db is made of each chunk, and not in a second pass.
  bool makesClassGradientsOfChunks() const { return wantsClassGradients() && !hasSecondPass; }
  /// What a product multiplies.
  std::pair<ElementType, ElementType> operands(ProductKind kind) const {
    if (isOfLogits(kind)) return {element, element};
    return {exponentials, kind == ProductKind::dHidden ? element : exponentials};
  }

  /// What was chosen, for people; what was asked for is `Request::str()`.
  std::string str() const;
};

/// Of a RowSum, for people.
const char *rowSumName(int sum);

/// Only `Variant::recompute` differs from the others here.
Scheme schemeFor(const Request &request, Variant variant);

} // namespace tilewright::lce

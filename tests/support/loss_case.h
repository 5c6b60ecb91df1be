#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/element_type.h"
#include "kernels/loss_options.h"

namespace tilewright::test {

/// What the data of a loss looks like.
enum class DataKind {
  random,
  peaked,       ///< most rows know their label, some do not
  constant,     ///< all numbers equal: every class is as likely
  confident,    ///< every row is nearly sure of its label
  largeLoss,    ///< every row is sure of another class: losses in the thousands
  commonOffset, ///< all logits of a row lie near 4096, on a grid that fp32 sums exactly
};
constexpr DataKind kDataKinds[] = {DataKind::random,    DataKind::peaked,    DataKind::constant,
                                   DataKind::confident, DataKind::largeLoss, DataKind::commonOffset};
const char *dataKindName(DataKind kind);

enum class IgnorePattern { none, some, firstHalf, all };

/// A problem on the host. The numbers are such that the element type holds them exactly.
struct LossCase {
  int64_t rows = 0, hidden = 0, classes = 0;
  ElementType element = ElementType::f32;
  bool tf32 = false; ///< how f32 products are to be made
  int64_t ignoreIndex = kDefaultIgnoreIndex;
  std::vector<float> x, w;
  std::vector<int64_t> label;
  std::vector<float> bias, classWeight;          ///< one a class, or none at all
  std::vector<float> dWeightBefore, dBiasBefore; ///< what is in buffers that gradients are added to
};

LossCase makeCase(DataKind kind, int64_t rows, int64_t hidden, int64_t classes, ElementType element,
                  IgnorePattern ignored = IgnorePattern::none);

/// Gives all rows of W something in common that is far larger than what they differ by.
void addCommonPart(LossCase &data);

/// Logits of a kind: the products of a case's hidden states and head, rounded to the element type. They are
/// `x`, with `hidden` equal to `classes`.
LossCase logitsCase(DataKind kind, int64_t rows, int64_t classes, ElementType element,
                    IgnorePattern ignored = IgnorePattern::none);

/// The first rows and classes of the hidden states and head of a trained language model (bf16), if the folder
/// TILEWRIGHT_TEST_DATA names has them. Labels outside the classes are ignored.
std::optional<LossCase> trainedHead(int64_t rows, int64_t classes);

} // namespace tilewright::test

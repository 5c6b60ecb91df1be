#include "kernels/loss/validate.h"

#include <tuple>

#include "kernels/largest_size.h"

namespace tilewright {
namespace {

std::string shape(const TensorRef &t) {
  std::string text = "a tensor of rank " + std::to_string(t.rank);
  if (t.rank == 1) text = "a vector of " + std::to_string(t.sizes[0]);
  if (t.rank == 2) text = std::to_string(t.sizes[0]) + "x" + std::to_string(t.sizes[1]);
  return text + " " + elementName(t.element);
}

Status expected(const std::string &name, const std::string &what, const TensorRef &found) {
  return userError(name + " must be " + what + ", found " + shape(found));
}

Status checkVector(const TensorRef &t, const std::string &name, int64_t size, ElementType element) {
  if (t.rank != 1 || t.sizes[0] != size || t.element != element)
    return expected(name, "a vector of " + std::to_string(size) + " " + elementName(element), t);
  return Status();
}

Status checkGradOutput(const TensorRef &t, int64_t rows, Reduction reduction) {
  const bool perRow = reduction == Reduction::none && t.sizes[0] == rows;
  if (t.rank == 1 && t.element == ElementType::f32 && (t.sizes[0] == 1 || perRow)) return Status();
  const std::string orRows = reduction == Reduction::none ? ", or " + std::to_string(rows) + " of them," : "";
  return expected("gradOutput", "a vector of 1 f32" + orRows + " for reduction " + reductionName(reduction),
                  t);
}

} // namespace

Status checkMatrix(const TensorRef &t, const std::string &name) {
  if (t.rank != 2 || !isFloat(t.element)) return expected(name, "a matrix of f32, bf16 or f16", t);
  if (t.sizes[0] < 0 || t.sizes[1] < 0) return expected(name, "a matrix with sizes that are not negative", t);
  if (t.rowStride < t.sizes[1])
    return userError("rows of " + name + " must be at least " + std::to_string(t.sizes[1]) +
                     " elements apart, found a row stride of " + std::to_string(t.rowStride));
  if (!t.data && t.elements() > 0) return userError(name + " has no data: its pointer is null");
  return Status();
}

Status checkShape(const TensorRef &t, const std::string &name, int64_t rows, int64_t columns) {
  if (t.sizes[0] != rows || t.sizes[1] != columns)
    return expected(name, std::to_string(rows) + "x" + std::to_string(columns) + " to fit the other tensors",
                    t);
  return Status();
}

Status checkGradient(const TensorRef &t, const std::string &name, int64_t rows, int64_t columns,
                     ElementType element) {
  TW_RETURN_IF_ERROR(checkMatrix(t, name));
  TW_RETURN_IF_ERROR(checkShape(t, name, rows, columns));
  if (t.element != ElementType::f32 && t.element != element)
    return expected(name, std::string("of type f32 or of the inputs' type, ") + elementName(element), t);
  return Status();
}

Status checkSizes(int64_t rows, int64_t classes) {
  if (classes < 1) return userError("there must be at least 1 class, found " + std::to_string(classes));
  if (rows > kLargestSize || classes > kLargestSize)
    return userError("at most " + std::to_string(kLargestSize) + " rows and classes are supported, found " +
                     std::to_string(rows) + " rows and " + std::to_string(classes) + " classes");
  return Status();
}

Status checkLinearInputs(const TensorRef &hidden, const TensorRef &weight) {
  TW_RETURN_IF_ERROR(checkMatrix(hidden, "hidden"));
  TW_RETURN_IF_ERROR(checkMatrix(weight, "weight"));
  TW_RETURN_IF_ERROR(checkSizes(hidden.sizes[0], weight.sizes[0]));
  if (hidden.sizes[1] < 1 || hidden.sizes[1] > kLargestSize)
    return userError("hidden states must have from 1 to " + std::to_string(kLargestSize) +
                     " columns, found " + std::to_string(hidden.sizes[1]));
  TW_RETURN_IF_ERROR(checkShape(weight, "weight", weight.sizes[0], hidden.sizes[1]));
  if (weight.element == hidden.element) return Status();
  return userError(std::string("weight must have the type of hidden, ") + elementName(hidden.element) +
                   ", but has " + elementName(weight.element));
}

Status checkTf32(bool tf32, ElementType element) {
  if (!tf32 || element == ElementType::f32) return Status();
  return userError(std::string("tf32 is a way to multiply f32 matrices, but hidden has ") +
                   elementName(element));
}

Status checkRowValues(const TensorRef &t, const std::string &name, int64_t rows) {
  TW_RETURN_IF_ERROR(checkVector(t, name, rows, ElementType::f32));
  if (!t.data && rows > 0) return userError(name + " has no data: its pointer is null");
  return Status();
}

Status checkLossTensors(const LossTensors &t, int64_t rows, Reduction reduction, bool wantsLoss) {
  if (t.label.element != ElementType::i32 && t.label.element != ElementType::i64)
    return expected("label", "a vector of i32 or i64", t.label);
  TW_RETURN_IF_ERROR(checkVector(t.label, "label", rows, t.label.element));
  if (!t.label.data && rows > 0) return userError("label has no data: its pointer is null");
  const int64_t losses = reduction == Reduction::none ? rows : 1;
  if (wantsLoss) TW_RETURN_IF_ERROR(checkRowValues(t.loss, "loss", losses));
  if (t.lse.data) TW_RETURN_IF_ERROR(checkVector(t.lse, "lse", rows, ElementType::f32));
  if (t.gradOutput.data) TW_RETURN_IF_ERROR(checkGradOutput(t.gradOutput, rows, reduction));
  return Status();
}

Status checkOptionTensors(const OptionTensors &t, int64_t rows, int64_t classes) {
  const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
  const std::tuple<const TensorRef &, const char *, int64_t, ElementType> tensors[] = {
      {t.classWeight, "classWeight", classes, f32},
      {t.gradLse, "gradLse", rows, f32},
      {t.gradEntropy, "gradEntropy", rows, f32},
      {t.entropy, "entropy", rows, f32},
      {t.argmax, "argmax", rows, i32},
      {t.correct, "correct", rows, i32},
      {t.monitored, "monitored", kMonitoredQuantities, f32}};
  for (const auto &[tensor, name, size, element] : tensors)
    if (tensor.data) TW_RETURN_IF_ERROR(checkVector(tensor, name, size, element));
  return Status();
}

RowOutputs outputsOf(const OptionTensors &t) {
  const bool monitored = t.monitored.data != nullptr;
  return {monitored || t.entropy.data, monitored || t.argmax.data || t.correct.data, monitored};
}

Status checkBias(const TensorRef &t, const std::string &name, int64_t classes, ElementType element) {
  return checkVector(t, name, classes, t.element == element ? element : ElementType::f32);
}

Upstream upstreamOf(const TensorRef &gradOutput, int64_t rows, Reduction reduction) {
  if (!gradOutput.data) return Upstream::one;
  return reduction == Reduction::none && gradOutput.sizes[0] == rows ? Upstream::rows : Upstream::scalar;
}

} // namespace tilewright

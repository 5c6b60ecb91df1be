#include "kernels/cross_entropy.h"

#include <chrono>

#include "kernels/ce/kernels.h"
#include "kernels/jit.h"
#include "kernels/loss/carver.h"
#include "kernels/loss/validate.h"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Status validate(const CrossEntropyTensors &t, const CrossEntropyOptions &options) {
  TW_RETURN_IF_ERROR(checkMatrix(t.logits, "logits"));
  const int64_t rows = t.logits.sizes[0], classes = t.logits.sizes[1];
  TW_RETURN_IF_ERROR(checkSizes(rows, classes));
  TW_RETURN_IF_ERROR(checkLossTensors({t.label, t.gradOutput, t.loss, t.lse}, rows, options.reduction));
  if (!t.dLogits.data) return Status();
  TW_RETURN_IF_ERROR(checkGradient(t.dLogits, "dLogits", rows, classes, t.logits.element));
  if (t.dLogits.data == t.logits.data &&
      (t.dLogits.element != t.logits.element || t.dLogits.rowStride != t.logits.rowStride))
    return userError("dLogits in place of the logits must have their type and row stride");
  return Status();
}

struct Kernels {
  KernelHandle compactRows, row, reduceLoss;
};

StatusOr<Kernels> makeKernels(Runtime &runtime, const CrossEntropyTensors &t,
                              const CrossEntropyOptions &options) {
  const bool mean = options.reduction == Reduction::mean;
  std::optional<ElementType> gradient;
  ce::RowSpec rowSpec{t.logits.element, {}};
  if (t.dLogits.data) {
    gradient = t.dLogits.element;
    rowSpec.gradient = {*gradient, {upstreamOf(t.gradOutput, t.logits.sizes[0], options.reduction), mean}};
  }
  TW_ASSIGN_OR_RETURN(const std::vector<KernelHandle> made,
                      jitAll(runtime, {{compactRows({t.label.element, gradient}), {}},
                                       {ce::row(rowSpec), {}},
                                       {reduceLoss(mean), {}}}));
  return Kernels{made[0], made[1], made[2]};
}

/// Device memory beside inputs and outputs, cut into tensors.
struct Workspace {
  TensorRef rowNumbers, row, label; ///< rowNumbers: the other two as one vector
  TensorRef rowLoss, lse, summary;
  int64_t bytes = 0;
};

Workspace layOut(int64_t rows, void *base) {
  const ElementType i32 = ElementType::i32, f32 = ElementType::f32;
  Carver carver(base);
  Workspace w;
  w.rowNumbers = carver.vector(i32, 2 * rows);
  w.row = TensorRef::vector(w.rowNumbers.data, i32, rows);
  w.label = TensorRef::vector(static_cast<char *>(w.rowNumbers.data) + 4 * rows, i32, rows);
  w.rowLoss = carver.vector(f32, rows);
  w.lse = carver.vector(f32, rows);
  w.summary = carver.vector(i32, 1);
  w.bytes = carver.bytes();
  return w;
}

/// Enqueues the launches of one call. Nothing here reads a tensor's data.
Status launchAll(Device &device, Stream stream, const Kernels &kernels, const CrossEntropyTensors &t,
                 const CrossEntropyOptions &options, const Workspace &w) {
  const TensorRef rowLoss = options.reduction == Reduction::none ? t.loss : w.rowLoss;
  const TensorRef lse = t.lse.data ? t.lse : w.lse;
  std::vector<KernelArgument> compact = {t.label,   options.ignoreIndex,  t.logits.sizes[1], w.row, w.label,
                                         w.summary, device.labelReport(), rowLoss,           lse};
  std::vector<KernelArgument> row = {t.logits, w.row, w.label, rowLoss, lse};
  if (t.dLogits.data) {
    compact.push_back(t.dLogits);
    row.push_back(w.summary);
    if (t.gradOutput.data) row.push_back(t.gradOutput);
    row.push_back(t.dLogits);
  }
  TW_RETURN_IF_ERROR(fill(device, w.rowNumbers, 0xFF, stream)); // -1: no row
  TW_RETURN_IF_ERROR(fill(device, w.summary, 0, stream));       // stays when there is no row at all
  TW_RETURN_IF_ERROR(device.launch(*kernels.compactRows, compact, stream));
  TW_RETURN_IF_ERROR(device.launch(*kernels.row, row, stream));
  if (options.reduction == Reduction::none) return Status();
  return device.launch(*kernels.reduceLoss, {rowLoss, w.summary, t.loss}, stream);
}

} // namespace

StatusOr<LossReport> crossEntropy(Runtime &runtime, const CrossEntropyTensors &tensors,
                                  const CrossEntropyOptions &options, Stream stream) {
  TW_RETURN_IF_ERROR(validate(tensors, options));
  Device &device = runtime.device();
  const int64_t rows = tensors.logits.sizes[0];

  LossReport report;
  report.variant = tensors.dLogits.data ? Variant::whole : Variant::lossOnly;
  report.configuration = "one row a program";
  report.workspaceBytes = layOut(rows, nullptr).bytes;
  auto start = Clock::now();
  TW_ASSIGN_OR_RETURN(const Kernels kernels, makeKernels(runtime, tensors, options));
  report.compileMilliseconds = millisecondsSince(start);

  start = Clock::now();
  TW_ASSIGN_OR_RETURN(const Buffer memory, device.allocate(report.workspaceBytes, stream));
  const Workspace workspace = layOut(rows, memory.data());
  TW_RETURN_IF_ERROR(launchAll(device, stream, kernels, tensors, options, workspace));
  TW_RETURN_IF_ERROR(reportNow(device, stream));
  report.runMilliseconds = millisecondsSince(start);
  return report;
}

} // namespace tilewright

#include "kernels/cross_entropy.h"

#include <chrono>

#include "compiler/base/elapsed.h"
#include "kernels/ce/kernels.h"
#include "kernels/jit.h"
#include "kernels/loss/carver.h"
#include "kernels/loss/validate.h"

namespace tilewright {
namespace {

OptionTensors optionTensors(const CrossEntropyTensors &t) {
  return {t.classWeight, t.gradLse, t.gradEntropy, t.entropy, t.argmax, t.correct, t.monitored};
}

Status validate(const CrossEntropyTensors &t, const CrossEntropyOptions &options) {
  TW_RETURN_IF_ERROR(checkOptions(options, t.classWeight.data != nullptr));
  TW_RETURN_IF_ERROR(checkMatrix(t.logits, "logits"));
  const int64_t rows = t.logits.sizes[0], classes = t.logits.sizes[1];
  TW_RETURN_IF_ERROR(checkSizes(rows, classes));
  TW_RETURN_IF_ERROR(checkLossTensors({t.label, t.gradOutput, t.loss, t.lse}, rows, options.reduction));
  TW_RETURN_IF_ERROR(checkOptionTensors(optionTensors(t), rows, classes));
  if (!t.dLogits.data) return Status();
  TW_RETURN_IF_ERROR(checkGradient(t.dLogits, "dLogits", rows, classes, t.logits.element));
  if (t.dLogits.data == t.logits.data &&
      (t.dLogits.element != t.logits.element || t.dLogits.rowStride != t.logits.rowStride))
    return userError("dLogits in place of the logits must have their type and row stride");
  return Status();
}

struct Kernels {
  KernelHandle compactRows, row, reduceLoss, rowWeights, weightFacts, monitor;
};

ce::RowSpec rowSpec(const CrossEntropyTensors &t, const CrossEntropyOptions &options) {
  ce::RowSpec spec{t.logits.element, {}, termsOf(options, optionTensors(t)), outputsOf(optionTensors(t))};
  const UpstreamSpec upstream = {upstreamOf(t.gradOutput, t.logits.sizes[0], options.reduction),
                                 options.reduction == Reduction::mean};
  if (t.dLogits.data) spec.gradient = {t.dLogits.element, upstream};
  return spec;
}

StatusOr<Kernels> makeKernels(Runtime &runtime, const CrossEntropyTensors &t, const ce::RowSpec &spec,
                              const CompileOptions &rowOptions, Reduction reduction) {
  const bool mean = reduction == Reduction::mean;
  std::optional<ElementType> gradient;
  if (spec.gradient) gradient = spec.gradient->output;
  Kernels kernels;
  std::vector<JitRequest> requests;
  std::vector<KernelHandle *> places;
  const auto want = [&](KernelHandle &place, Kernel kernel, const CompileOptions &options = {}) {
    requests.push_back({std::move(kernel), options});
    places.push_back(&place);
  };
  want(kernels.compactRows, compactRows({t.label.element, gradient}));
  want(kernels.row, ce::row(spec), rowOptions);
  if (reduction != Reduction::none) want(kernels.reduceLoss, reduceLoss(mean));
  if (spec.terms.classWeight) {
    want(kernels.rowWeights, rowWeights());
    want(kernels.weightFacts, weightFacts(mean));
  }
  if (spec.outputs.monitored) want(kernels.monitor, monitor());
  TW_ASSIGN_OR_RETURN(const std::vector<KernelHandle> made, jitAll(runtime, requests));
  for (std::size_t i = 0; i < made.size(); ++i)
    *places[i] = made[i];
  return kernels;
}

/// Device memory beside inputs and outputs, cut into tensors, and what the caller has in place of some.
struct Workspace {
  TensorRef row, label, rowLoss, lse, summary;
  TensorRef rowWeight, weightFacts, firstBadWeight;
  TensorRef entropy, argmax, correct, top, norm;
  int64_t bytes = 0;
};

Workspace layOut(const CrossEntropyTensors &t, const ce::RowSpec &spec, Reduction reduction, void *base) {
  const ElementType i32 = ElementType::i32, f32 = ElementType::f32;
  const int64_t rows = t.logits.sizes[0];
  Carver carver(base);
  const auto ofRows = [&](const TensorRef &callers, ElementType type) {
    return callers.data ? callers : carver.vector(type, rows);
  };
  Workspace w;
  w.row = carver.vector(i32, rows);
  w.label = carver.vector(i32, rows);
  w.rowLoss = ofRows(reduction == Reduction::none ? t.loss : TensorRef(), f32);
  w.lse = ofRows(t.lse, f32);
  w.summary = carver.vector(i32, 1);
  if (spec.terms.classWeight) {
    w.rowWeight = carver.vector(f32, rows);
    w.weightFacts = carver.vector(f32, 2);
    w.firstBadWeight = carver.vector(i32, 1);
  }
  if (spec.outputs.entropy) w.entropy = ofRows(t.entropy, f32);
  if (spec.outputs.best) w.argmax = ofRows(t.argmax, i32), w.correct = ofRows(t.correct, i32);
  if (spec.outputs.monitored) w.top = carver.vector(f32, rows), w.norm = carver.vector(f32, rows);
  w.bytes = carver.bytes();
  return w;
}

/// Enqueues the launches of one call. Nothing here reads a tensor's data.
class Launches {
public:
  Launches(Device &device, Stream stream, const Kernels &kernels, const CrossEntropyTensors &t,
           const CrossEntropyOptions &options, const ce::RowSpec &spec, const Workspace &w)
      : device_(device), stream_(stream), kernels_(kernels), t_(t), options_(options), spec_(spec), w_(w) {}

  Status run() {
    TW_RETURN_IF_ERROR(compact());
    if (spec_.terms.classWeight) {
      TW_RETURN_IF_ERROR(launch(kernels_.rowWeights, {w_.label, t_.classWeight, w_.rowWeight}));
      TW_RETURN_IF_ERROR(launch(kernels_.weightFacts, {w_.rowWeight, t_.classWeight, w_.summary,
                                                       w_.weightFacts, w_.firstBadWeight}));
    }
    TW_RETURN_IF_ERROR(rows());
    if (spec_.outputs.monitored)
      TW_RETURN_IF_ERROR(launch(kernels_.monitor, {w_.lse, w_.entropy, w_.top, w_.norm, w_.argmax, w_.correct,
                                                   w_.summary, t_.monitored}));
    if (options_.reduction == Reduction::none) return Status();
    return launch(kernels_.reduceLoss, {w_.rowLoss, w_.summary, t_.loss});
  }

private:
  Status compact() {
    if (t_.logits.sizes[0] == 0) // which no program does then
      TW_RETURN_IF_ERROR(fill(device_, w_.summary, 0, stream_));
    for (const TensorRef &ofRows : {w_.entropy, w_.correct, w_.top, w_.norm}) // what ignored rows keep
      if (ofRows.data) TW_RETURN_IF_ERROR(fill(device_, ofRows, 0, stream_));
    if (w_.argmax.data) TW_RETURN_IF_ERROR(fill(device_, w_.argmax, 0xFF, stream_));
    KernelArguments arguments = {t_.label,   options_.ignoreIndex,  t_.logits.sizes[1], w_.row, w_.label,
                                 w_.summary, device_.labelReport(), w_.rowLoss,         w_.lse};
    if (t_.dLogits.data) arguments.push_back(t_.dLogits);
    return launch(kernels_.compactRows, arguments);
  }

  Status rows() {
    const TermValues values = {
        options_, {}, t_.logits.sizes[1], {}, t_.classWeight, t_.gradLse, t_.gradEntropy, w_.weightFacts, {}};
    KernelArguments arguments = {t_.logits, w_.row, w_.label};
    LogitTerms(spec_.terms).bind(values, arguments);
    RowTerms(spec_.terms, spec_.gradient.has_value()).bind(values, arguments);
    const auto append = [&](const TensorRef &tensor) {
      if (tensor.data) arguments.push_back(tensor);
    };
    if (spec_.terms.labelSmoothing) append(t_.classWeight);
    for (const TensorRef &output : {w_.rowLoss, w_.lse, w_.entropy, w_.argmax, w_.correct, w_.top, w_.norm})
      append(output);
    if (spec_.gradient)
      for (const TensorRef &tensor : {w_.summary, t_.gradOutput, t_.dLogits})
        append(tensor);
    return launch(kernels_.row, arguments);
  }

  Status launch(const KernelHandle &kernel, const KernelArguments &arguments) {
    return device_.launch(*kernel, arguments, stream_);
  }

  Device &device_;
  Stream stream_;
  const Kernels &kernels_;
  const CrossEntropyTensors &t_;
  const CrossEntropyOptions &options_;
  const ce::RowSpec &spec_;
  const Workspace &w_;
};

} // namespace

StatusOr<LossReport> crossEntropy(Runtime &runtime, const CrossEntropyTensors &tensors,
                                  const CrossEntropyOptions &options, Stream stream) {
  TW_RETURN_IF_ERROR(validate(tensors, options));
  Device &device = runtime.device();
  const ce::RowSpec spec = rowSpec(tensors, options);

  LossReport report;
  report.variant = tensors.dLogits.data ? Variant::whole : Variant::lossOnly;
  const ce::RowSchedule schedule =
      ce::scheduleRow(spec, tensors.logits.sizes[1], device.target(), device.info().sharedBytes);
  report.configuration = schedule.str();
  report.workspaceBytes = layOut(tensors, spec, options.reduction, nullptr).bytes;
  auto start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(const Kernels kernels,
                      makeKernels(runtime, tensors, spec, schedule.options, options.reduction));
  report.compileMilliseconds = millisecondsSince(start);

  start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(const Buffer memory, device.allocate(report.workspaceBytes, stream));
  const Workspace w = layOut(tensors, spec, options.reduction, memory.data());
  TW_RETURN_IF_ERROR(Launches(device, stream, kernels, tensors, options, spec, w).run());
  TW_RETURN_IF_ERROR(reportNow(device, stream));
  if (spec.terms.classWeight)
    TW_RETURN_IF_ERROR(checkClassWeights(device, stream, w.firstBadWeight, tensors.logits.sizes[1]));
  report.runMilliseconds = millisecondsSince(start);
  return report;
}

} // namespace tilewright

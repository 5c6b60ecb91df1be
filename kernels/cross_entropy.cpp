#include "kernels/cross_entropy.h"

#include <optional>
#include <utility>

#include "kernels/ce/kernels.h"
#include "kernels/loss/validate.h"
#include "kernels/one_call.h"

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

/// The tensors of a call: N rows, V classes.
namespace tensor {
enum : TensorId {
  logits,
  label,
  gradOutput,
  loss,
  dLogits,
  classWeight,
  gradLse,
  gradEntropy,
  monitored, // the caller's
  lse,
  entropy,
  argmax,
  correct, // the caller's where those are given, else of the workspace
  status,
  rowCounts,
  rowStarts,
  row,
  compactLabel,
  rowLoss,
  validCount,
  rowWeight,
  weightFacts,
  top,
  norm,
};
} // namespace tensor

/// A tensor of CrossEntropyTensors: the one place that says which it is in a program.
struct Member {
  TensorId id;
  TensorRef CrossEntropyTensors::*tensor;
  const char *name;
  bool isOutput = false;
};

using T = CrossEntropyTensors;
constexpr Member kMembers[] = {
    {tensor::logits, &T::logits, "logits"},
    {tensor::label, &T::label, "label"},
    {tensor::gradOutput, &T::gradOutput, "gradOutput"},
    {tensor::classWeight, &T::classWeight, "classWeight"},
    {tensor::gradLse, &T::gradLse, "gradLse"},
    {tensor::gradEntropy, &T::gradEntropy, "gradEntropy"},
    {tensor::loss, &T::loss, "loss", true},
    {tensor::lse, &T::lse, "lse", true},
    {tensor::dLogits, &T::dLogits, "dLogits", true},
    {tensor::entropy, &T::entropy, "entropy", true},
    {tensor::argmax, &T::argmax, "argmax", true},
    {tensor::correct, &T::correct, "correct", true},
    {tensor::monitored, &T::monitored, "monitored", true},
};

/// The caller's tensors by their ids.
class TensorsById {
public:
  explicit TensorsById(const CrossEntropyTensors &tensors) {
    for (const Member &member : kMembers)
      pointers_[member.id] = &(tensors.*member.tensor);
  }
  operator TensorPointers() const { return pointers_; }

private:
  const TensorRef *pointers_[TensorTable::kCapacity];
};

ce::RowSpec rowSpec(const CrossEntropyTensors &t, const CrossEntropyOptions &options) {
  ce::RowSpec spec{t.logits.element, {}, termsOf(options, optionTensors(t)), outputsOf(optionTensors(t))};
  const UpstreamSpec upstream = {upstreamOf(t.gradOutput, t.logits.sizes[0], options.reduction),
                                 options.reduction == Reduction::mean};
  if (t.dLogits.data) spec.gradient = {t.dLogits.element, upstream};
  return spec;
}

/// Nothing is large beside the caller's matrices: everything lives throughout.
TensorTable tensorsOf(const CrossEntropyTensors &t, const ce::RowSpec &spec, Reduction reduction) {
  const ElementType i32 = ElementType::i32, f32 = ElementType::f32;
  const int64_t rows = t.logits.sizes[0];
  TensorTable table;
  for (const Member &member : kMembers)
    if ((t.*member.tensor).data || member.id == tensor::logits || member.id == tensor::label)
      table.addCallers(member.id, member.name, t.*member.tensor);
  const auto ofRows = [&](bool isWanted, TensorId id, const char *name, ElementType type, int64_t size) {
    if (isWanted && !table.has(id)) table.addVector(id, name, type, size, {});
  };
  ofRows(true, tensor::status, "status", ElementType::i64, kCallStatusWords);
  if (rows > kMostUncountedRows) {
    const int64_t blocks = (rows + kCountedRows - 1) / kCountedRows;
    table.addMatrix(tensor::rowCounts, "rowCounts", i32, 2, blocks, blocks, {});
    table.addVector(tensor::rowStarts, "rowStarts", i32, (blocks + kCountedBlocks - 1) / kCountedBlocks + 2,
                    {});
  }
  ofRows(true, tensor::row, "row", i32, rows);
  ofRows(true, tensor::compactLabel, "compactLabel", i32, rows);
  ofRows(true, tensor::validCount, "validCount", i32, 1);
  ofRows(true, tensor::lse, "lse", f32, rows);
  if (reduction == Reduction::none)
    table.addAlias(tensor::rowLoss, "rowLoss", tensor::loss);
  else
    ofRows(true, tensor::rowLoss, "rowLoss", f32, rows);
  ofRows(spec.terms.classWeight, tensor::rowWeight, "rowWeight", f32, rows);
  ofRows(spec.terms.classWeight, tensor::weightFacts, "weightFacts", f32, 2);
  ofRows(spec.outputs.entropy, tensor::entropy, "entropy", f32, rows);
  ofRows(spec.outputs.best, tensor::argmax, "argmax", i32, rows);
  ofRows(spec.outputs.best, tensor::correct, "correct", i32, rows);
  ofRows(spec.outputs.monitored, tensor::top, "top", f32, rows);
  ofRows(spec.outputs.monitored, tensor::norm, "norm", f32, rows);
  table.place(0);
  return table;
}

/// The steps of a call, in their order.
class Emitter {
public:
  Emitter(const CrossEntropyTensors &t, const CrossEntropyOptions &options, const ce::RowSpec &spec,
          Program &program)
      : t_(t), options_(options), spec_(spec), program_(program) {}

  void emit(const CompileOptions &rowOptions) {
    compact();
    const bool isMean = options_.reduction == Reduction::mean;
    if (spec_.terms.classWeight) {
      launch(rowWeights(),
             arguments().tensors({tensor::compactLabel, tensor::classWeight, tensor::rowWeight}));
      launch(weightFacts(isMean), arguments()
                                      .tensors({tensor::rowWeight, tensor::classWeight, tensor::validCount})
                                      .sequence()
                                      .tensors({tensor::weightFacts, tensor::status}));
    }
    rows(rowOptions);
    if (spec_.outputs.monitored)
      launch(monitor(),
             arguments().tensors({tensor::lse, tensor::entropy, tensor::top, tensor::norm, tensor::argmax,
                                  tensor::correct, tensor::validCount, tensor::monitored}));
    if (options_.reduction != Reduction::none)
      launch(reduceLoss(isMean), arguments().tensors({tensor::rowLoss, tensor::validCount, tensor::loss}));
  }

private:
  StepArguments arguments() const { return StepArguments(program_.table()); }
  void launch(Kernel kernel, const StepArguments &arguments, const CompileOptions &options = {}) {
    program_.addLaunch(program_.addKernel(std::move(kernel), options), arguments);
  }

  void compact() {
    if (t_.logits.sizes[0] == 0) program_.addFill(tensor::validCount, 0); // which no program sets then
    for (const TensorId ofRows : {tensor::entropy, tensor::correct, tensor::top, tensor::norm})
      if (program_.table().has(ofRows)) program_.addFill(ofRows, 0); // what ignored rows keep
    if (program_.table().has(tensor::argmax)) program_.addFill(tensor::argmax, 0xFF);
    std::optional<ElementType> gradient;
    if (spec_.gradient) gradient = spec_.gradient->output;
    const auto labels = [&] {
      return arguments().tensor(tensor::label).index(options_.ignoreIndex).index(t_.logits.sizes[1]);
    };
    const bool isCounted = program_.table().has(tensor::rowCounts);
    if (isCounted) {
      launch(countRows(t_.label.element), labels().tensor(tensor::rowCounts));
      launch(scanRows(), arguments().tensors({tensor::rowCounts, tensor::rowStarts}));
    }
    launch(compactRows({t_.label.element, gradient, isCounted}),
           labels().sequence().tensors({tensor::rowCounts, tensor::rowStarts, tensor::row,
                                        tensor::compactLabel, tensor::validCount, tensor::status,
                                        tensor::rowLoss, tensor::lse, tensor::dLogits}));
  }

  void rows(const CompileOptions &rowOptions) {
    TermValues values;
    values.options = options_;
    values.classes = t_.logits.sizes[1];
    values.classWeight = tensor::classWeight, values.weightFacts = tensor::weightFacts;
    values.gradLse = tensor::gradLse, values.gradEntropy = tensor::gradEntropy;
    StepArguments row = arguments();
    row.tensors({tensor::logits, tensor::row, tensor::compactLabel});
    LogitTerms(spec_.terms).bind(values, row);
    RowTerms(spec_.terms, spec_.gradient.has_value()).bind(values, row);
    if (spec_.terms.labelSmoothing) row.tensor(tensor::classWeight);
    row.tensors({tensor::rowLoss, tensor::lse, tensor::entropy, tensor::argmax, tensor::correct, tensor::top,
                 tensor::norm});
    if (spec_.gradient) row.tensors({tensor::validCount, tensor::gradOutput, tensor::dLogits});
    launch(ce::row(spec_), row, rowOptions);
  }

  const CrossEntropyTensors &t_;
  const CrossEntropyOptions &options_;
  const ce::RowSpec &spec_;
  Program &program_;
};

/// The calls that were prepared last.
using PreparedCalls = PreparedCallCache<PreparedCrossEntropy, CrossEntropyTensors, CrossEntropyOptions>;

} // namespace

namespace {

Program programFor(const CrossEntropyTensors &tensors, const CrossEntropyOptions &options,
                   const ce::RowSpec &spec, const ce::RowSchedule &schedule) {
  const int64_t rows = tensors.logits.sizes[0];
  Program program(tensorsOf(tensors, spec, options.reduction), {rows, rows}, tensor::status);
  Emitter(tensors, options, spec, program).emit(schedule.options);
  return program;
}

} // namespace

StatusOr<Program> crossEntropyProgram(const CrossEntropyTensors &tensors, const CrossEntropyOptions &options,
                                      const Target &target, const DeviceInfo &device) {
  TW_RETURN_IF_ERROR(validate(tensors, options));
  const ce::RowSpec spec = rowSpec(tensors, options);
  return programFor(tensors, options, spec,
                    ce::scheduleRow(spec, tensors.logits.sizes[1], target, device.sharedBytes));
}

StatusOr<PreparedCrossEntropy> PreparedCrossEntropy::prepare(Runtime &runtime,
                                                             const CrossEntropyTensors &tensors,
                                                             const CrossEntropyOptions &options) {
  TW_RETURN_IF_ERROR(validate(tensors, options));
  const ce::RowSpec spec = rowSpec(tensors, options);
  const ce::RowSchedule schedule = ce::scheduleRow(spec, tensors.logits.sizes[1], runtime.device().target(),
                                                   runtime.planningInfo().sharedBytes);
  PreparedCall::Facts facts;
  facts.checksWeights = spec.terms.classWeight;
  for (const Member &member : kMembers)
    facts.callers.push_back({member.id, member.name, member.isOutput, false,
                             member.id == tensor::dLogits ? TensorId(tensor::logits) : kNoTensor});
  PreparedCrossEntropy prepared;
  TW_ASSIGN_OR_RETURN(
      prepared.call_,
      PreparedCall::make(runtime, programFor(tensors, options, spec, schedule), std::move(facts)));
  prepared.variant_ = tensors.dLogits.data ? Variant::whole : Variant::lossOnly;
  prepared.description_ = schedule.str();
  return prepared;
}

Status PreparedCrossEntropy::run(const CrossEntropyTensors &tensors, const CallMemory &memory,
                                 Stream stream) const {
  return call_->run(TensorsById(tensors), memory, stream);
}

bool PreparedCrossEntropy::fits(const CrossEntropyTensors &tensors) const {
  return call_->fits(TensorsById(tensors));
}

StatusOr<LossReport> crossEntropy(Runtime &runtime, const CrossEntropyTensors &tensors,
                                  const CrossEntropyOptions &options, Stream stream) {
  return runtime.attached<PreparedCalls>().call(runtime, tensors, options, stream, [&] {
    return PreparedCrossEntropy::prepare(runtime, tensors, options);
  });
}

StatusOr<int64_t> crossEntropyWorkspaceBytes(const CrossEntropyTensors &tensors,
                                             const CrossEntropyOptions &options) {
  TW_RETURN_IF_ERROR(validate(tensors, options));
  return tensorsOf(tensors, rowSpec(tensors, options), options.reduction).workspaceBytes();
}

} // namespace tilewright

#include "kernels/covered_calls.h"

#include <mutex>

#include "compiler/base/byte_text.h"
#include "compiler/base/parallel.h"
#include "kernels/gradient_scaling.h"
#include "kernels/lce_call.h"

namespace tilewright {
namespace {

/// Stands for memory that nobody reads or writes.
constexpr uintptr_t kSomewhere = 4096;

/// The tensors of calls with one number of rows.
class Tensors {
public:
  Tensors(const CoveredCalls &calls, int64_t rows, bool aligned)
      : calls_(calls), rows_(rows), address_(kSomewhere + (aligned ? 0 : elementBytes(calls.element))) {}

  TensorRef matrix(int64_t rows, int64_t columns, ElementType element) const {
    return TensorRef::matrix(reinterpret_cast<void *>(address_), element, rows, columns);
  }
  TensorRef vector(int64_t size, ElementType element = ElementType::f32) const {
    return TensorRef::vector(reinterpret_cast<void *>(kSomewhere), element, size);
  }
  TensorRef ofRows(ElementType element = ElementType::f32) const { return vector(rows_, element); }
  /// Of the loss, and of its upstream gradient.
  TensorRef ofLoss() const { return vector(calls_.options.reduction == Reduction::none ? rows_ : 1); }

  /// What both losses have; `T` is one of the two structures.
  template <typename T> void addInputs(T &t, ElementType label) const {
    t.label = ofRows(label);
    if (calls_.classWeight) t.classWeight = vector(calls_.classes);
  }
  template <typename T> void addOutputs(T &t) const {
    t.loss = ofLoss();
    t.lse = ofRows();
    if (!calls_.monitored) return;
    t.entropy = ofRows();
    t.argmax = t.correct = ofRows(ElementType::i32);
    t.monitored = vector(kMonitoredQuantities);
  }

private:
  const CoveredCalls &calls_;
  const int64_t rows_;
  const uintptr_t address_;
};

/// The gradients that arrive with one call.
struct Upstream {
  bool loss = false, lse = false, entropy = false;

  template <typename T> void addTo(T &t, const Tensors &make) const {
    if (loss) t.gradOutput = make.ofLoss();
    if (lse) t.gradLse = make.ofRows();
    if (entropy) t.gradEntropy = make.ofRows();
  }
};

class Collector {
public:
  Collector(const CoveredCalls &calls, const Target &target, const DeviceInfo &device)
      : calls_(calls), target_(target), device_(device) {}

  Status addRows(int64_t rows) {
    for (const ElementType label : {ElementType::i32, ElementType::i64})
      for (const bool aligned : {true, false})
        if (aligned || calls_.unaligned || !device_.warpgroups)
          TW_RETURN_IF_ERROR(calls_.overLogits ? addOverLogits(Tensors(calls_, rows, aligned), rows, label)
                                               : addLinear(Tensors(calls_, rows, aligned), rows, label));
    return {};
  }

  void add(const std::vector<JitRequest> &requests) {
    for (const JitRequest &request : requests)
      found_.emplace(
          KernelKey{request.kernel.name, request.kernel.specialisation, request.options.str()}.str(),
          request);
  }

  KernelSet &found() { return found_; }

private:
  /// Gradients; with a frozen matrix the other one's alone.
  enum class Wanted { both, hidden, weight };

  std::vector<Upstream> upstreams() const {
    std::vector<Upstream> all = {{false, false, false}, {true, false, false}};
    const auto addEach = [&all](bool Upstream::*which) {
      const std::vector<Upstream> without = all;
      for (Upstream upstream : without) {
        upstream.*which = true;
        all.push_back(upstream);
      }
    };
    if (calls_.gradLse) addEach(&Upstream::lse);
    if (calls_.gradEntropy) addEach(&Upstream::entropy);
    return all;
  }

  Status addLinear(const Tensors &make, int64_t rows, ElementType label) {
    const ElementType element = calls_.element;
    LinearCrossEntropyTensors inputs;
    inputs.hidden = make.matrix(rows, calls_.hidden, element);
    inputs.weight = make.matrix(calls_.classes, calls_.hidden, element);
    make.addInputs(inputs, label);
    std::vector<ElementType> biases = {ElementType::f32};
    if (calls_.bias && element != ElementType::f32) biases.push_back(element);
    for (const ElementType bias : biases) {
      if (calls_.bias) inputs.bias = make.vector(calls_.classes, bias);
      LinearCrossEntropyTensors evaluation = inputs, training, backward;
      make.addOutputs(evaluation);
      TW_RETURN_IF_ERROR(add(evaluation, CallPass::fused));
      if (calls_.options.variant == Variant::lossOnly) continue;
      for (const Upstream &upstream : upstreams())
        for (const Wanted wanted : {Wanted::both, Wanted::hidden, Wanted::weight}) {
          training = evaluation;
          backward = inputs;
          backward.savedLse = make.ofRows();
          for (LinearCrossEntropyTensors *t : {&training, &backward}) {
            upstream.addTo(*t, make);
            if (wanted != Wanted::weight) t->dHidden = make.matrix(rows, calls_.hidden, element);
            if (wanted == Wanted::hidden) continue;
            t->dWeight = make.matrix(calls_.classes, calls_.hidden, calls_.dWeight);
            if (calls_.bias) t->dBias = make.vector(calls_.classes, bias);
          }
          TW_RETURN_IF_ERROR(add(training, CallPass::fused));
          TW_RETURN_IF_ERROR(add(backward, CallPass::backward));
        }
    }
    return {};
  }

  Status add(const LinearCrossEntropyTensors &tensors, CallPass pass) {
    LinearCrossEntropyOptions options = calls_.options;
    if (!tensors.dHidden.data && !tensors.dWeight.data) options.configuration.clear(); // it is for gradients
    TW_ASSIGN_OR_RETURN(const Program program,
                        lce::plannedProgram(tensors, options, pass, device_, target_.kind));
    add(program.kernels());
    return {};
  }

  Status addOverLogits(const Tensors &make, int64_t rows, ElementType label) {
    CrossEntropyTensors t;
    t.logits = make.matrix(rows, calls_.classes, calls_.element);
    make.addInputs(t, label);
    make.addOutputs(t);
    TW_RETURN_IF_ERROR(add(t));
    t.dLogits = t.logits;
    for (const Upstream &upstream : upstreams()) {
      CrossEntropyTensors training = t;
      upstream.addTo(training, make);
      TW_RETURN_IF_ERROR(add(training));
    }
    return {};
  }

  Status add(const CrossEntropyTensors &tensors) {
    TW_ASSIGN_OR_RETURN(const Program program,
                        crossEntropyProgram(tensors, calls_.options, target_, device_));
    add(program.kernels());
    return {};
  }

  const CoveredCalls &calls_;
  const Target &target_;
  const DeviceInfo &device_;
  KernelSet found_;
};

} // namespace

std::string CoveredCalls::str() const {
  std::string text = overLogits ? "cross entropy over logits of " : "linear cross entropy of ";
  text += std::string(options.tf32 ? "tf32" : elementName(element)) + ", N up to " + std::to_string(mostRows);
  if (!overLogits) text += ", H " + std::to_string(hidden);
  text += ", V " + std::to_string(classes) + ", " + reductionName(options.reduction);
  const std::pair<bool, const char *> parts[] = {
      {dWeight != element, "f32 dW"},
      {bias, "bias"},
      {classWeight, "class weights"},
      {options.labelSmoothing != 0, "label smoothing"},
      {options.zLoss != 0, "z-loss"},
      {options.logitScale != 1, "logit scale"},
      {options.softcap.has_value(), "softcap"},
      {options.lmcl.has_value(), "margin"},
      {options.objective == Objective::prob, "prob"},
      {options.accumulate, "accumulate"},
      {!options.flushSmallProbabilities, "no flush of small probabilities"},
      {monitored, "metrics"},
      {gradLse, "gradients for lse"},
      {gradEntropy, "gradients for entropy"},
      {!options.configuration.empty(), "a pinned configuration"},
  };
  for (const auto &[isOn, name] : parts)
    if (isOn) text += std::string(", ") + name;
  if (options.variant != Variant::automatic) text += std::string(", ") + variantName(options.variant);
  if (options.workspaceLimit > 0) text += ", in " + exactByteText(options.workspaceLimit);
  return text;
}

Status addKernels(const CoveredCalls &calls, const Target &target, const DeviceInfo &device,
                  KernelSet &kernels) {
  // Threads take blocks of numbers of rows; each has a set of its own, as most kernels are found again.
  constexpr int64_t kBlock = 64;
  std::mutex mutex; // guards what follows
  int64_t firstRefused = calls.mostRows + 1;
  Status refusal;
  parallelFor(calls.mostRows / kBlock + 1, [&](int64_t block) {
    Collector collector(calls, target, device);
    for (int64_t rows = block * kBlock; rows < (block + 1) * kBlock && rows <= calls.mostRows; ++rows)
      if (const Status added = collector.addRows(rows); !added.ok()) {
        std::lock_guard<std::mutex> guard(mutex);
        if (rows < firstRefused) firstRefused = rows, refusal = added;
        return;
      }
    std::lock_guard<std::mutex> guard(mutex);
    kernels.merge(collector.found());
  });
  if (!refusal.ok()) return refusal.in("N " + std::to_string(firstRefused));
  Collector scaling(calls, target, device);
  for (const ElementType element : {calls.element, calls.dWeight})
    scaling.add(GradientScaling::kernels(element));
  kernels.merge(scaling.found());
  return {};
}

} // namespace tilewright

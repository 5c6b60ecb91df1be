#include "kernels/covered_calls.h"

#include <mutex>
#include <set>

#include "compiler/base/byte_text.h"
#include "compiler/base/integers.h"
#include "compiler/base/parallel.h"
#include "kernels/gradient_scaling.h"
#include "kernels/lce_call.h"
#include "kernels/sharded_linear_cross_entropy.h"

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
    if (calls_.entropy) t.entropy = ofRows();
    if (calls_.argmax) t.argmax = ofRows(ElementType::i32);
    if (calls_.correct) t.correct = ofRows(ElementType::i32);
    if (calls_.monitored) t.monitored = vector(kMonitoredQuantities);
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

/// The gradients that one call makes: of a frozen matrix there is none.
struct Wanted {
  bool hidden, weight, bias;
};

/// Every choice of at least one gradient.
std::vector<Wanted> wantedGradients(bool hasBias) {
  std::vector<Wanted> all;
  for (const bool bias : {false, true})
    for (const bool weight : {false, true})
      for (const bool hidden : {false, true})
        if ((hidden || weight || bias) && (hasBias || !bias)) all.push_back({hidden, weight, bias});
  return all;
}

/// A bias, or none.
struct BiasTypes {
  ElementType value, gradient;
};

/// The classes of one device: all of them, or a rank's.
struct Classes {
  int64_t count;
  VocabularyShard shard;
};

std::vector<Classes> classesOfDevices(const CoveredCalls &calls) {
  if (calls.shards == 0) return {{calls.classes, {}}};
  const int64_t widest = ceilDiv(calls.classes, calls.shards);
  std::set<int64_t> counts = {calls.classes / calls.shards, widest};
  if (const int64_t last = calls.classes - (calls.shards - 1) * widest; last > 0) counts.insert(last);
  std::vector<Classes> all;
  for (const int64_t count : counts) // which of the ranks it is changes no kernel
    all.push_back({count, {calls.classes, 0, 0, calls.shards, widest}});
  return all;
}

class Collector {
public:
  Collector(const CoveredCalls &calls, const Target &target, const DeviceInfo &device)
      : calls_(calls), target_(target), device_(device) {}

  Status addRows(int64_t rows) {
    for (const ElementType label : {ElementType::i32, ElementType::i64})
      for (const bool aligned : {true, false})
        if (aligned || calls_.unaligned || !device_.warpgroups)
          TW_RETURN_IF_ERROR(add(Tensors(calls_, rows, aligned), rows, label));
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

  Status add(const Tensors &make, int64_t rows, ElementType label) {
    if (calls_.overLogits) return addOverLogits(make, rows, label);
    for (const Classes &classes : classesOfDevices(calls_))
      for (const BiasTypes &bias : biases())
        TW_RETURN_IF_ERROR(addLinear(make, rows, label, classes, bias));
    return {};
  }

  std::vector<BiasTypes> biases() const {
    constexpr ElementType f32 = ElementType::f32;
    if (!calls_.bias || calls_.element == f32) return {{f32, f32}};
    return {{f32, f32}, {calls_.element, calls_.element}, {calls_.element, f32}};
  }

  Status addLinear(const Tensors &make, int64_t rows, ElementType label, const Classes &classes,
                   const BiasTypes &bias) {
    LinearCrossEntropyTensors inputs;
    inputs.hidden = make.matrix(rows, calls_.hidden, calls_.element);
    inputs.weight = make.matrix(classes.count, calls_.hidden, calls_.element);
    make.addInputs(inputs, label);
    if (calls_.bias) inputs.bias = make.vector(classes.count, bias.value);
    LinearCrossEntropyTensors evaluation = inputs;
    make.addOutputs(evaluation);
    TW_RETURN_IF_ERROR(add(evaluation, CallPass::fused, classes.shard));
    if (calls_.options.variant == Variant::lossOnly) return {};
    for (const Upstream &upstream : upstreams())
      for (const Wanted &wanted : wantedGradients(calls_.bias)) {
        LinearCrossEntropyTensors training = evaluation, backward = inputs;
        backward.savedLse = make.ofRows();
        for (LinearCrossEntropyTensors *t : {&training, &backward}) {
          upstream.addTo(*t, make);
          if (wanted.hidden) t->dHidden = make.matrix(rows, calls_.hidden, calls_.dHidden);
          if (wanted.weight) t->dWeight = make.matrix(classes.count, calls_.hidden, calls_.dWeight);
          if (wanted.bias) t->dBias = make.vector(classes.count, bias.gradient);
        }
        TW_RETURN_IF_ERROR(add(training, CallPass::fused, classes.shard));
        TW_RETURN_IF_ERROR(add(backward, CallPass::backward, classes.shard));
      }
    return {};
  }

  Status add(const LinearCrossEntropyTensors &t, CallPass pass, const VocabularyShard &shard) {
    LinearCrossEntropyOptions options = calls_.options;
    const bool hasGradients = t.dHidden.data || t.dWeight.data || t.dBias.data;
    if (!hasGradients) options.configuration.clear(); // it is for gradients
    TW_ASSIGN_OR_RETURN(const Program program,
                        shard.all > 0
                            ? lce::plannedShardProgram(t, options, shard, pass, device_, target_.kind)
                            : lce::plannedProgram(t, options, pass, device_, target_.kind));
    add(program.kernels());
    return {};
  }

  Status addOverLogits(const Tensors &make, int64_t rows, ElementType label) {
    CrossEntropyTensors t;
    t.logits = make.matrix(rows, calls_.classes, calls_.element);
    make.addInputs(t, label);
    make.addOutputs(t);
    TW_RETURN_IF_ERROR(add(t));
    t.dLogits = make.matrix(rows, calls_.classes, calls_.dHidden);
    t.dLogits.data = static_cast<char *>(t.dLogits.data) + kSomewhere; // in their place are the same kernels
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
      {dHidden != element, overLogits ? "f32 gradients" : "f32 dX"},
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
      {entropy, "entropy"},
      {argmax, "argmax"},
      {correct, "correct"},
      {monitored, "monitored quantities"},
      {gradLse, "gradients for lse"},
      {gradEntropy, "gradients for entropy"},
      {!options.configuration.empty(), "a pinned configuration"},
  };
  for (const auto &[isOn, name] : parts)
    if (isOn) text += std::string(", ") + name;
  if (shards > 0) text += ", shared by " + std::to_string(shards) + " ranks";
  if (options.variant != Variant::automatic) text += std::string(", ") + variantName(options.variant);
  if (options.workspaceLimit > 0) text += ", in " + exactByteText(options.workspaceLimit);
  return text;
}

Status addKernels(const CoveredCalls &calls, const Target &target, const DeviceInfo &device,
                  KernelSet &kernels) {
  if (calls.shards > calls.classes)
    return userError("expected shards of at least one class each, found " + std::to_string(calls.shards) +
                     " of " + std::to_string(calls.classes) + " classes");
  if (calls.shards > 0 && calls.overLogits)
    return userError("expected no shards of a loss over logits, found " + std::to_string(calls.shards));
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
  std::set<ElementType> gradients = {calls.element, calls.dHidden, calls.dWeight};
  if (calls.bias) gradients.insert(ElementType::f32);
  for (const ElementType element : gradients)
    scaling.add(GradientScaling::kernels(element));
  kernels.merge(scaling.found());
  return {};
}

} // namespace tilewright

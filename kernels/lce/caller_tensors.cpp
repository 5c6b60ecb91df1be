#include "kernels/lce/caller_tensors.h"

#include "kernels/lce/tensors.h"

namespace tilewright::lce {
namespace {

constexpr ElementType f32 = ElementType::f32, i32 = ElementType::i32;
constexpr Lifetime kAlways = {phase::begin, phase::end};

class CallersTensors {
public:
  CallersTensors(const Scheme &scheme, TensorTable &table)
      : s_(scheme), table_(table), n_(scheme.rows), h_(scheme.hidden), v_(scheme.classes) {}

  TensorEntry &callersVector(TensorId id, const char *name, ElementType element, int64_t size) {
    TensorEntry &entry = table_.addVector(id, name, element, size, kAlways);
    entry.arena = Arena::caller;
    return entry;
  }
  TensorEntry &callersMatrix(TensorId id, const char *name, ElementType element, int64_t rows,
                             int64_t stride) {
    TensorEntry &entry = table_.addMatrix(id, name, element, rows, h_, stride ? stride : h_, kAlways);
    entry.arena = Arena::caller;
    return entry;
  }

  void callers() {
    callersMatrix(tensor::hidden, "hidden", s_.element, n_, s_.strides.hidden);
    callersMatrix(tensor::weight, "weight", s_.element, v_, s_.strides.weight).extent = Extent::classes;
    callersVector(tensor::label, "label", s_.label, n_);
    if (s_.upstream != Upstream::one)
      callersVector(tensor::gradOutput, "gradOutput", f32, s_.upstream == Upstream::rows ? n_ : 1);
    if (s_.pass == CallPass::fused)
      callersVector(tensor::loss, "loss", f32, s_.reduction == Reduction::none ? n_ : 1);
    else
      callersVector(tensor::savedLse, "lse", f32, n_);
    if (s_.dHidden) callersMatrix(tensor::dHidden, "dHidden", *s_.dHidden, n_, s_.strides.dHidden);
    if (s_.dWeight)
      callersMatrix(tensor::dWeight, "dWeight", *s_.dWeight, v_, s_.strides.dWeight).extent = Extent::classes;
    if (s_.terms.bias) callersVector(tensor::bias, "bias", *s_.terms.bias, v_).extent = Extent::classes;
    if (s_.dBias) callersVector(tensor::dBias, "dBias", *s_.dBias, v_).extent = Extent::classes;
    if (s_.terms.classWeight) classWeights();
    if (s_.terms.gradLse) callersVector(tensor::gradLse, "gradLse", f32, n_);
    if (s_.terms.gradEntropy) callersVector(tensor::gradEntropy, "gradEntropy", f32, n_);
    if (s_.outputs.monitored) callersVector(tensor::monitored, "monitored", f32, kMonitoredQuantities);
  }

  /// Of all rows; in the workspace where the caller has no memory for them.
  void outputs() {
    const auto add = [&](bool isWanted, bool isGiven, TensorId id, const char *name, ElementType element) {
      if (isGiven)
        callersVector(id, name, element, n_);
      else if (isWanted)
        table_.addVector(id, name, element, n_, kAlways);
    };
    add(true, s_.given.lse, tensor::lse, "lse", f32);
    add(s_.outputs.entropy, s_.given.entropy, tensor::entropy, "entropy", f32);
    add(s_.outputs.best, s_.given.argmax, tensor::argmax, "argmax", i32);
    add(s_.outputs.best, s_.given.correct, tensor::correct, "correct", i32);
    if (s_.reduction == Reduction::none && s_.pass == CallPass::fused)
      table_.addAlias(tensor::rowLoss, "rowLoss", tensor::loss);
    else
      table_.addVector(tensor::rowLoss, "rowLoss", f32, n_, kAlways);
  }

private:
  /// A shard has those of all classes, and its own among them.
  void classWeights() {
    callersVector(tensor::classWeight, "classWeight", f32, s_.allClasses()).extent =
        s_.isShard() ? Extent::whole : Extent::classes;
    if (!s_.isShard()) return;
    TensorEntry &own = table_.addAlias(tensor::ownClassWeight, "ownClassWeight", tensor::classWeight);
    own.rows = v_, own.extent = Extent::classes;
    own.offset = s_.shard.first * static_cast<int64_t>(sizeof(float));
  }

  const Scheme &s_;
  TensorTable &table_;
  const int64_t n_, h_, v_;
};

} // namespace

void addCallersTensors(const Scheme &scheme, TensorTable &table) {
  CallersTensors tensors(scheme, table);
  tensors.callers();
  tensors.outputs();
}

} // namespace tilewright::lce

#include "runtime/call_status.h"

#include <algorithm>
#include <initializer_list>

namespace tilewright {
namespace {

int64_t load(const int64_t *words, CallStatusWord word) {
  return __atomic_load_n(&words[word], __ATOMIC_ACQUIRE);
}

/// Modulo 2^64.
int64_t sum(std::initializer_list<int64_t> terms) {
  uint64_t total = 0;
  for (const int64_t term : terms)
    total += static_cast<uint64_t>(term);
  return static_cast<int64_t>(total);
}

struct LabelReport {
  int64_t check, place, label, classes, ignoreIndex;
  explicit LabelReport(const int64_t *words)
      : check(load(words, kLabelCheck)), place(load(words, kBadRowPlace)), label(load(words, kBadLabel)),
        classes(load(words, kLabelClasses)), ignoreIndex(load(words, kLabelIgnoreIndex)) {}
  bool isOf(int64_t run) const { return check == sum({run, place, label, classes, ignoreIndex}); }
};

struct WeightReport {
  int64_t check, place;
  explicit WeightReport(const int64_t *words)
      : check(load(words, kWeightCheck)), place(load(words, kBadClassPlace)) {}
  bool isOf(int64_t run) const { return check == sum({run, place}); }
};

} // namespace

StatusOr<CallStatus> CallStatus::allocate(Device &device) {
  TW_ASSIGN_OR_RETURN(const std::vector<CallStatus> one, allocate(device, 1));
  return one[0];
}

StatusOr<std::vector<CallStatus>> CallStatus::allocate(Device &device, int count) {
  TW_ASSIGN_OR_RETURN(const Buffer memory, device.allocateVisible(count * kCallStatusBytes));
  std::vector<CallStatus> statuses;
  for (int i = 0; i < count; ++i)
    statuses.push_back(
        CallStatus(device, static_cast<int64_t *>(memory.data()) + i * kCallStatusWords, memory));
  return statuses;
}

StatusOr<CallStatus> CallStatus::at(Device &device, void *words) {
  TW_RETURN_IF_ERROR(device.checkVisible(words));
  return CallStatus(device, words, Buffer());
}

CallStatus::CallStatus(const Device &device, void *words, Buffer memory) : state_(std::make_shared<State>()) {
  state_->memory = std::move(memory);
  state_->device = &device;
  state_->words = static_cast<int64_t *>(words);
  std::fill(state_->words, state_->words + kCallStatusWords, 0);
}

int64_t CallStatus::beginRun(bool checksLabels, bool checksWeights) {
  state_->checksLabels = checksLabels;
  state_->checksWeights = checksWeights;
  return ++state_->run;
}

bool CallStatus::isDone() const {
  if (!state_ || state_->run == 0) return true;
  return (!state_->checksLabels || LabelReport(state_->words).isOf(state_->run)) &&
         (!state_->checksWeights || WeightReport(state_->words).isOf(state_->run));
}

Status CallStatus::error() const { return state_ ? statusOf(state_->words, state_->run) : Status(); }

Status statusOf(const int64_t *words, int64_t number) {
  const LabelReport labels(words);
  if (labels.isOf(number) && labels.place > 0)
    return labelError(labels.place - 1, labels.label, labels.classes, labels.ignoreIndex);
  const WeightReport weights(words);
  if (weights.isOf(number) && weights.place > 0)
    return userError("class weights must be finite and not negative, but that of class " +
                     std::to_string(weights.place - 1) + " is not");
  return Status();
}

Status labelError(int64_t row, int64_t label, int64_t classes, int64_t ignoreIndex) {
  return userError("label " + std::to_string(label) + " in row " + std::to_string(row) +
                   " is no class: expected 0 to " + std::to_string(classes - 1) + ", or the ignore index " +
                   std::to_string(ignoreIndex));
}

} // namespace tilewright

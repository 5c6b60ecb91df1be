#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

/// The words, of 64 bits, by which the kernels of a call tell the host what is wrong with its data. Kernels
/// write them in any order, and a check word is the sum of a run's number and the words that it vouches for:
/// no word is of another run's report.
enum CallStatusWord {
  kLabelCheck,       ///< the run's number + the next four words
  kBadRowPlace,      ///< the first row whose label is neither a class nor the ignore index, plus 1; 0: none
  kBadLabel,         ///< its label
  kLabelClasses,     ///< V
  kLabelIgnoreIndex, ///< of the call
  kWeightCheck,      ///< the run's number + the next word
  kBadClassPlace,    ///< the first class whose weight is negative or not finite, plus 1; 0: none
  kReservedWord,
  kCallStatusWords
};
constexpr std::size_t kCallStatusBytes = kCallStatusWords * sizeof(int64_t);

/// What the kernels of a call found wrong with its data: a bad label, a bad class weight. Only the device
/// sees those, and nobody waits for it: a call may be asked at any time whether its kernels have looked, and
/// what they found. Copies refer to the same words. One status serves one run at a time, on whatever stream.
class CallStatus {
public:
  CallStatus() = default; ///< of no call: done, and without an error

  /// In memory of its own; several at once, as the allocation takes a driver long.
  static StatusOr<CallStatus> allocate(Device &device);
  static StatusOr<std::vector<CallStatus>> allocate(Device &device, int count);
  /// In the caller's memory: `kCallStatusBytes` of host memory that the device reaches at the same address
  /// (pinned), and that outlive the call and this object. Other memory is a user error.
  static StatusOr<CallStatus> at(Device &device, void *words);

  bool valid() const { return state_ != nullptr; }
  bool isUnused() const { return state_.use_count() == 1; } ///< there is no copy of this one
  void *words() const { return state_ ? state_->words : nullptr; }
  /// Whether it was made for this device, so that kernels of the device reach the words.
  bool isOf(const Device &device) const { return state_ && state_->device == &device; }

  /// Begins a run, whose number it returns; kernels get it as an argument. `checksLabels`: there are rows at
  /// all.
  int64_t beginRun(bool checksLabels, bool checksWeights);

  /// Whether the kernels of the last run have looked at its data. A replay of a captured graph repeats the
  /// run that was captured. Waits for nothing.
  bool isDone() const;
  /// A user error that names what was found up to now; ok where nothing was, or the kernels have not looked
  /// yet.
  Status error() const;

private:
  struct State {
    Buffer memory;
    const Device *device = nullptr; ///< compared alone, as the device may be gone
    int64_t *words = nullptr;
    std::atomic<int64_t> run{0};
    std::atomic<bool> checksLabels{false}, checksWeights{false};
  };
  CallStatus(const Device &device, void *words, Buffer memory);

  std::shared_ptr<State> state_;
};

/// What `kCallStatusWords` words say of run `number`: ok where there is nothing, or another run's report.
Status statusOf(const int64_t *words, int64_t number);

/// A user error that names the row and the label.
Status labelError(int64_t row, int64_t label, int64_t classes, int64_t ignoreIndex);

} // namespace tilewright

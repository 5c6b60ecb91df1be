#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "compiler/base/elapsed.h"
#include "compiler/base/status.h"
#include "kernels/loss_options.h"
#include "runtime/runtime.h"

namespace tilewright {

/// The calls of one kind that a runtime prepared last, for the form of a loss that is one call. `Prepared`
/// has `fits`, `run` and what a report tells; `Options` can be compared.
template <typename Prepared, typename Tensors, typename Options> class PreparedCallCache {
public:
  /// Runs the call that was prepared for such tensors and options, else what `prepare` returns, with a
  /// workspace of the device's.
  template <typename Prepare>
  StatusOr<LossReport> call(Runtime &runtime, const Tensors &tensors, const Options &options, Stream stream,
                            const Prepare &prepare) {
    auto start = std::chrono::steady_clock::now();
    Handle entry = find(tensors, options);
    if (!entry) {
      TW_ASSIGN_OR_RETURN(Prepared prepared, prepare());
      entry = add({options, std::move(prepared)});
    }
    const Prepared &prepared = entry->prepared;
    LossReport report;
    report.variant = prepared.variant();
    report.configuration = prepared.description();
    report.workspaceBytes = prepared.workspaceBytes();
    report.compileMilliseconds = millisecondsSince(start);

    start = std::chrono::steady_clock::now();
    if (!runtime.device().isCapturing(stream)) {
      TW_ASSIGN_OR_RETURN(report.status, runtime.callStatus());
    }
    TW_ASSIGN_OR_RETURN(const Buffer workspace, runtime.device().allocate(report.workspaceBytes, stream));
    TW_RETURN_IF_ERROR(
        prepared.run(tensors, {workspace.data(), report.workspaceBytes, report.status}, stream));
    report.runMilliseconds = millisecondsSince(start);
    return report;
  }

private:
  struct Entry {
    Options options;
    Prepared prepared;
  };
  using Handle = std::shared_ptr<const Entry>;

  Handle find(const Tensors &tensors, const Options &options) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Handle &entry) {
      return entry->prepared.fits(tensors) && entry->options == options;
    });
    if (found == entries_.end()) return nullptr;
    std::rotate(entries_.begin(), found, found + 1); // the latest comes first
    return entries_.front();
  }

  Handle add(Entry entry) {
    constexpr std::size_t kMost = 16;
    auto handle = std::make_shared<const Entry>(std::move(entry));
    std::lock_guard<std::mutex> guard(mutex_);
    if (entries_.size() == kMost) entries_.pop_back();
    entries_.insert(entries_.begin(), handle);
    return handle;
  }

  std::mutex mutex_;
  std::vector<Handle> entries_;
};

} // namespace tilewright

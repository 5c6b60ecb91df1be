#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "kernels/program/program.h"
#include "runtime/call_status.h"

namespace tilewright {

/// Memory for one run of a prepared call, the caller's own. It is in use until the run's work on its stream
/// is done.
struct CallMemory {
  void *workspace = nullptr; ///< device memory, aligned to 256 bytes
  int64_t bytes = 0;         ///< of the workspace, at least `workspaceBytes`
  CallStatus status = {};    ///< gets what is wrong with the data; none: of a GPU's run nobody learns it
};

/// One of the caller's tensors, as a call was prepared for it.
struct CallersTensor {
  TensorId id = kNoTensor;
  const char *name = nullptr;
  bool isOutput = false;
  bool mustBeAligned = false;      ///< begins at a multiple of 16 bytes
  TensorId mayReplace = kNoTensor; ///< an output that may be this input itself
  bool mayBeAbsent = false;        ///< null in parts of a run that do not need it
};

/// Tensors of a call, by their ids; null where a kind of call has no such tensor.
using TensorPointers = const TensorRef *const *;

/// A program with its kernels loaded, on a device. `run` does not change it: any thread may run it at any
/// time, each run with memory of its own.
class PreparedCall {
public:
  struct Facts {
    std::vector<CallersTensor> callers; ///< all that this kind of call may have
    TensorId borrowed = kNoTensor;      ///< the output whose memory is scratch before it is written
    bool checksWeights = false;
  };

  static StatusOr<std::unique_ptr<const PreparedCall>> make(Runtime &runtime, Program program, Facts facts);

  int64_t workspaceBytes() const { return program_.table().workspaceBytes(); }
  const Program &program() const { return program_; }

  /// Whether `run` would take these tensors: their presence, shapes, types, strides and alignment are as
  /// prepared.
  bool fits(TensorPointers tensors) const;

  /// Checks the tensors and enqueues the call's work. Allocates nothing from the heap. A user error names the
  /// tensor that is not as prepared, overlaps another one, or that the device does not reach, or says how
  /// much workspace is needed. On a device whose launches are done when they return, bad data is an error of
  /// the run, too.
  Status run(TensorPointers tensors, const CallMemory &memory, Stream stream) const;
  /// The steps of one tag alone.
  Status runTagged(TensorPointers tensors, const CallMemory &memory, Stream stream, int tag) const;
  /// A part of a call that is run in parts, with the same tensors and memory each. The first part is part 0,
  /// whose run gets what is wrong with the data.
  Status runPart(TensorPointers tensors, const CallMemory &memory, Stream stream, int part,
                 int64_t chunk) const;

private:
  PreparedCall(Device &device, Program program, Facts facts)
      : device_(device), program_(std::move(program)), facts_(std::move(facts)) {}

  bool isAsPrepared(const CallersTensor &callers, const TensorRef &tensor) const;
  Status mismatch(const CallersTensor &callers, const TensorRef &tensor) const;
  Status check(TensorPointers tensors, const CallMemory &memory, Stream stream) const;
  Status checkOverlaps(TensorPointers tensors, const CallMemory &memory) const;
  Status checkAddresses(TensorPointers tensors, const CallMemory &memory, Stream stream) const;
  /// `reached`: the last address in its place that was fine.
  Status checkAddress(const void *address, const char *name, Stream stream,
                      std::atomic<const void *> &reached) const;
  ProgramMemory memoryOf(TensorPointers tensors, const CallMemory &memory, void **addresses) const;
  int64_t *wordsInWorkspace(const CallMemory &memory) const;
  /// Returns the run's number.
  int64_t beginRun(const CallMemory &memory) const;
  Status reportOf(const CallMemory &memory, int64_t sequence) const;

  Device &device_;
  Program program_;
  const Facts facts_;
  /// Addresses that the device was seen to reach, by id: frameworks use the same ones again and again.
  mutable std::atomic<const void *> reached_[TensorTable::kCapacity] = {};
  mutable std::atomic<const void *> reachedWorkspace_ = nullptr;
};

} // namespace tilewright

#include "kernels/program/prepared_call.h"

#include <algorithm>

#include "runtime/argument_memory.h"

namespace tilewright {
namespace {

constexpr uintptr_t kAlignment = 16; ///< bytes, as `CompileOptions::alignedMatrices` promises

std::string describe(const TensorRef &tensor) {
  if (!tensor.data) return "none";
  std::string text = std::to_string(tensor.sizes[0]);
  if (tensor.rank == 2)
    text +=
        "x" + std::to_string(tensor.sizes[1]) + " with a row stride of " + std::to_string(tensor.rowStride);
  return text + " " + elementName(tensor.element);
}

std::string describe(const TensorEntry &entry) {
  TensorRef tensor{reinterpret_cast<void *>(kAlignment),
                   entry.element,
                   entry.rank,
                   {entry.rows, entry.columns},
                   entry.rowStride};
  return describe(tensor);
}

} // namespace

StatusOr<std::unique_ptr<const PreparedCall>> PreparedCall::make(Runtime &runtime, Program program,
                                                                 Facts facts) {
  TW_RETURN_IF_ERROR(program.loadKernels(runtime));
  return std::unique_ptr<const PreparedCall>(
      new PreparedCall(runtime.device(), std::move(program), std::move(facts)));
}

bool PreparedCall::isAsPrepared(const CallersTensor &callers, const TensorRef &tensor) const {
  const TensorTable &table = program_.table();
  if (!table.has(callers.id) || table[callers.id].arena != Arena::caller) return !tensor.data;
  const TensorEntry &entry = table[callers.id];
  if (!tensor.data && callers.mayBeAbsent) return true;
  if (!tensor.data || tensor.element != entry.element || tensor.rank != entry.rank ||
      tensor.sizes[0] != entry.rows)
    return !tensor.data && entry.rows == 0 &&
           entry.rank == tensor.rank; // without rows an address means nothing
  if (entry.rank == 2 && (tensor.sizes[1] != entry.columns || tensor.rowStride != entry.rowStride))
    return false;
  return !callers.mustBeAligned || reinterpret_cast<uintptr_t>(tensor.data) % kAlignment == 0;
}

bool PreparedCall::fits(TensorPointers tensors) const {
  return std::all_of(facts_.callers.begin(), facts_.callers.end(), [&](const CallersTensor &callers) {
    return isAsPrepared(callers, *tensors[callers.id]);
  });
}

Status PreparedCall::mismatch(const CallersTensor &callers, const TensorRef &tensor) const {
  const TensorTable &table = program_.table();
  const bool isWanted = table.has(callers.id) && table[callers.id].arena == Arena::caller;
  return userError(std::string(callers.name) + ": the call was prepared for " +
                   (isWanted ? describe(table[callers.id]) : "none") +
                   (callers.mustBeAligned ? " at a multiple of 16 bytes" : "") + ", found " +
                   describe(tensor) + "; prepare a call for such a tensor");
}

Status PreparedCall::check(TensorPointers tensors, const CallMemory &memory, Stream stream) const {
  for (const CallersTensor &callers : facts_.callers)
    if (!isAsPrepared(callers, *tensors[callers.id])) return mismatch(callers, *tensors[callers.id]);
  if (memory.bytes < workspaceBytes())
    return userError("the call needs a workspace of " + std::to_string(workspaceBytes()) + " bytes, found " +
                     std::to_string(memory.bytes));
  if (!memory.workspace || reinterpret_cast<uintptr_t>(memory.workspace) % kTensorAlignment)
    return userError("the workspace must be aligned to " + std::to_string(kTensorAlignment) +
                     " bytes, found a pointer that is " + (memory.workspace ? "not" : "null"));
  TW_RETURN_IF_ERROR(checkOverlaps(tensors, memory));
  return checkAddresses(tensors, memory, stream);
}

Status PreparedCall::checkOverlaps(TensorPointers tensors, const CallMemory &memory) const {
  const auto error = [](const char *a, const char *b) {
    return userError(std::string(a) + " overlaps " + b + "; outputs must have memory of their own");
  };
  const auto workspace = reinterpret_cast<uintptr_t>(memory.workspace);
  const MemorySpan ofWorkspace = {workspace, workspace + static_cast<uintptr_t>(memory.bytes)};
  for (const CallersTensor &a : facts_.callers) {
    if (!tensors[a.id]->data) continue;
    if (spanOf(*tensors[a.id]).meets(ofWorkspace)) return error(a.name, "the workspace");
    if (!a.isOutput) continue;
    for (const CallersTensor &b : facts_.callers) {
      const bool isSame =
          b.id == a.id || (b.id == a.mayReplace && tensors[b.id]->data == tensors[a.id]->data);
      if (!isSame && tensors[b.id]->data && overlap(*tensors[a.id], *tensors[b.id]))
        return error(a.name, b.name);
    }
  }
  return Status();
}

Status PreparedCall::checkAddress(const void *address, const char *name, Stream stream,
                                  std::atomic<const void *> &reached) const {
  if (!address || reached.load(std::memory_order_relaxed) == address) return Status();
  if (const Status status = device_.checkAddress(address, stream); !status.ok()) return status.in(name);
  reached.store(address, std::memory_order_relaxed);
  return Status();
}

Status PreparedCall::checkAddresses(TensorPointers tensors, const CallMemory &memory, Stream stream) const {
  for (const CallersTensor &callers : facts_.callers)
    TW_RETURN_IF_ERROR(checkAddress(tensors[callers.id]->data, callers.name, stream, reached_[callers.id]));
  TW_RETURN_IF_ERROR(checkAddress(memory.workspace, "workspace", stream, reachedWorkspace_));
  if (!memory.status.valid() || memory.status.isOf(device_)) return Status();
  const Status status = device_.checkVisible(memory.status.words());
  return status.ok() ? status : status.in("status");
}

ProgramMemory PreparedCall::memoryOf(TensorPointers tensors, const CallMemory &memory,
                                     void **addresses) const {
  for (const CallersTensor &callers : facts_.callers)
    addresses[callers.id] = tensors[callers.id]->data;
  ProgramMemory result;
  result.workspace = static_cast<char *>(memory.workspace);
  result.callers = addresses;
  result.status = memory.status.words();
  if (facts_.borrowed != kNoTensor)
    result.borrowed =
        reinterpret_cast<char *>(alignedBytes(reinterpret_cast<intptr_t>(tensors[facts_.borrowed]->data)));
  return result;
}

/// Where a run without a status reports, on a device whose memory is the host's; else null.
int64_t *PreparedCall::wordsInWorkspace(const CallMemory &memory) const {
  if (device_.target().kind != TargetKind::cpu || memory.status.valid()) return nullptr;
  const TensorEntry &entry = program_.table()[program_.statusTensor()];
  return reinterpret_cast<int64_t *>(static_cast<char *>(memory.workspace) + entry.offset);
}

/// What a run found, on a device that has done it by now.
Status PreparedCall::reportOf(const CallMemory &memory, int64_t sequence) const {
  if (device_.target().kind != TargetKind::cpu) return Status();
  if (memory.status.valid()) return memory.status.error();
  return statusOf(wordsInWorkspace(memory), sequence);
}

int64_t PreparedCall::beginRun(const CallMemory &memory) const {
  constexpr int64_t kNoStatus = 0x7477737461747573; // of a run whose words are in the workspace
  // The workspace may hold an earlier run's report, of which a run without that check would be blamed.
  if (int64_t *words = wordsInWorkspace(memory)) std::fill(words, words + kCallStatusWords, 0);
  CallStatus status = memory.status;
  return status.valid() ? status.beginRun(program_.rows().all > 0, facts_.checksWeights) : kNoStatus;
}

Status PreparedCall::run(TensorPointers tensors, const CallMemory &memory, Stream stream) const {
  TW_RETURN_IF_ERROR(check(tensors, memory, stream));
  void *addresses[TensorTable::kCapacity];
  ProgramMemory places = memoryOf(tensors, memory, addresses);
  places.sequence = beginRun(memory);
  TW_RETURN_IF_ERROR(program_.run(device_, places, stream));
  return reportOf(memory, places.sequence);
}

Status PreparedCall::runPart(TensorPointers tensors, const CallMemory &memory, Stream stream, int part,
                             int64_t chunk) const {
  TW_RETURN_IF_ERROR(check(tensors, memory, stream));
  if (chunk < 0 || chunk >= program_.rows().chunks())
    return userError("chunks are numbered from 0 to " + std::to_string(program_.rows().chunks() - 1) +
                     ", found " + std::to_string(chunk));
  void *addresses[TensorTable::kCapacity];
  ProgramMemory places = memoryOf(tensors, memory, addresses);
  if (part == 0) places.sequence = beginRun(memory);
  TW_RETURN_IF_ERROR(program_.runPart(device_, places, stream, part, chunk));
  return part == 0 ? reportOf(memory, places.sequence) : Status();
}

Status PreparedCall::runTagged(TensorPointers tensors, const CallMemory &memory, Stream stream,
                               int tag) const {
  TW_RETURN_IF_ERROR(check(tensors, memory, stream));
  void *addresses[TensorTable::kCapacity];
  return program_.runTagged(device_, memoryOf(tensors, memory, addresses), stream, tag);
}

} // namespace tilewright

#include <algorithm>
#include <limits>

#include "kernels/program/program.h"

namespace tilewright {
namespace {

constexpr int kMostArguments = 48;

bool isWhole(const RowWindow &window) {
  return window.first == 0 && window.end == std::numeric_limits<int64_t>::max() && window.group == 1 &&
         window.extra == 0;
}

} // namespace

/// One run: every tensor's address, and the arguments of the step at work, on the stack.
class ProgramRun {
public:
  ProgramRun(const Program &program, Device &device, const ProgramMemory &memory, Stream stream)
      : p_(program), device_(device), sequence_(memory.sequence), stream_(stream) {
    for (TensorId id = 0; id < TensorTable::kCapacity; ++id)
      if (p_.table_.has(id)) bases_[id] = addressOf(id, memory);
  }

  Status all() {
    const std::vector<Step> &steps = p_.steps_;
    for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
      end = begin + 1;
      if (!steps[begin].perChunk) {
        TW_RETURN_IF_ERROR(enqueue(steps[begin], false));
        continue;
      }
      while (end < steps.size() && steps[end].perChunk)
        ++end;
      TW_RETURN_IF_ERROR(loop(begin, end));
    }
    return Status();
  }

  Status tagged(int tag) {
    selectChunk(p_.rows_.chunks() - 1);
    for (const Step &step : p_.steps_)
      if (step.tag == tag && (!step.perChunk || (step.turns & turn_)))
        TW_RETURN_IF_ERROR(enqueue(step, step.perChunk));
    return Status();
  }

  Status part(int part, int64_t chunk) {
    selectChunk(chunk);
    for (const Step &step : p_.steps_)
      if (step.part == part && (!step.perChunk || (step.turns & turn_)))
        TW_RETURN_IF_ERROR(enqueue(step, step.perChunk));
    return Status();
  }

private:
  char *addressOf(TensorId id, const ProgramMemory &memory) const {
    const TensorEntry &entry = p_.table_[id];
    if (entry.aliasOf != kNoTensor) return addressOf(entry.aliasOf, memory) + entry.offset;
    if (id == p_.status_ && memory.status) return static_cast<char *>(memory.status);
    if (entry.arena == Arena::caller) return static_cast<char *>(memory.callers[id]);
    return (entry.arena == Arena::workspace ? memory.workspace : memory.borrowed) + entry.offset;
  }

  void selectChunk(int64_t chunk) {
    chunk_ = chunk;
    const int64_t chunks = p_.rows_.chunks();
    firstRow_ = chunk * p_.rows_.chunk;
    chunkRows_ = std::min(p_.rows_.chunk, p_.rows_.all - firstRow_);
    turn_ = chunk == 0 ? kFirstTurn : chunk + 1 == chunks ? kLastTurn : kMiddleTurns;
  }

  Status loop(std::size_t begin, std::size_t end) {
    for (int64_t chunk = 0; chunk < p_.rows_.chunks(); ++chunk) {
      selectChunk(chunk);
      for (std::size_t i = begin; i < end; ++i)
        if (p_.steps_[i].turns & turn_) TW_RETURN_IF_ERROR(enqueue(p_.steps_[i], true));
    }
    return Status();
  }

  Status enqueue(const Step &step, bool inChunk) {
    for (int i = 0; i < step.arguments; ++i)
      bind(step, p_.arguments_[step.firstArgument + i], inChunk, values_[i]);
    if (step.skippedWithout >= 0 && std::get<TensorRef>(values_[step.skippedWithout]).sizes[0] == 0)
      return Status();
    if (step.kernel < 0) {
      const auto &tensor = std::get<TensorRef>(values_[0]);
      return device_.fill(tensor.data, step.fillByte, tensor.elements() * elementBytes(tensor.element),
                          stream_);
    }
    return device_.launch(*p_.kernels_[step.kernel], {values_, static_cast<std::size_t>(step.arguments)},
                          stream_);
  }

  void bind(const Step &step, const StepArgument &argument, bool inChunk, KernelArgument &value) const {
    switch (argument.kind) {
    case StepArgument::Kind::tensor:
      return bindTensor(step, argument, inChunk, value);
    case StepArgument::Kind::index:
      value = argument.index;
      return;
    case StepArgument::Kind::number:
      value = argument.number;
      return;
    case StepArgument::Kind::firstRow:
      value = inChunk ? firstRow_ : int64_t(0);
      return;
    case StepArgument::Kind::sequence:
      value = sequence_;
      return;
    }
  }

  void bindTensor(const Step &step, const StepArgument &argument, bool inChunk, KernelArgument &value) const {
    const TensorEntry &entry = p_.table_[argument.id];
    int64_t first = 0, count = entry.rows;
    if (inChunk && (entry.extent == Extent::rows || entry.extent == Extent::chunk)) {
      first = entry.extent == Extent::rows ? firstRow_ : 0;
      count = chunkRows_;
    } else if (entry.extent == Extent::classes && step.classes.end >= 0) {
      first = step.classes.first;
      count = step.classes.end - step.classes.first;
    }
    if (!isWhole(argument.rows)) {
      const RowWindow &window = argument.rows;
      const int64_t begin = std::min(window.first, count), end = std::min(window.end, count);
      first += begin;
      count = end - begin;
      if (window.group > 1)
        count = std::max<int64_t>(1, (count + window.group - 1) / window.group) + window.extra;
    }
    TensorRef &tensor = value.emplace<TensorRef>();
    const auto elementSize = static_cast<int64_t>(elementBytes(entry.element));
    const int64_t stride = entry.rank == 1 ? 1 : entry.rowStride;
    const int64_t copy = entry.copies > 1 ? chunk_ % entry.copies * entry.bytesOfCopy() : 0;
    tensor.data = bases_[argument.id] + copy + (first * stride + argument.columns.first) * elementSize;
    tensor.element = entry.element;
    tensor.rank = entry.rank;
    tensor.sizes[0] = count;
    tensor.sizes[1] = argument.columns.count < 0 ? entry.columns : argument.columns.count;
    tensor.rowStride = entry.rank == 1 ? 0 : entry.rowStride;
  }

  const Program &p_;
  Device &device_;
  const int64_t sequence_;
  const Stream stream_;
  int64_t chunk_ = 0, firstRow_ = 0, chunkRows_ = 0;
  uint8_t turn_ = kFirstTurn;
  char *bases_[TensorTable::kCapacity];
  KernelArgument values_[kMostArguments];
};

Status Program::run(Device &device, const ProgramMemory &memory, Stream stream) const {
  return ProgramRun(*this, device, memory, stream).all();
}

Status Program::runTagged(Device &device, const ProgramMemory &memory, Stream stream, int tag) const {
  return ProgramRun(*this, device, memory, stream).tagged(tag);
}

Status Program::runPart(Device &device, const ProgramMemory &memory, Stream stream, int part,
                        int64_t chunk) const {
  return ProgramRun(*this, device, memory, stream).part(part, chunk);
}

} // namespace tilewright

#include "kernels/program/program.h"

#include <algorithm>
#include <numeric>

namespace tilewright {
namespace {

constexpr int kMostArguments = 48;

bool isWhole(const RowWindow &window) {
  return window.first == 0 && window.end == std::numeric_limits<int64_t>::max() && window.group == 1 &&
         window.extra == 0;
}

} // namespace

// ---- Arguments -----------------------------------------------------------------------------------------

StepArguments &StepArguments::tensor(TensorId id, RowWindow rows, ColumnWindow columns) {
  if (!table_.has(id)) return *this;
  StepArgument argument;
  argument.id = id, argument.rows = rows, argument.columns = columns;
  arguments_.push_back(argument);
  return *this;
}

StepArguments &StepArguments::tensors(std::initializer_list<TensorId> ids) {
  for (const TensorId id : ids)
    tensor(id);
  return *this;
}

StepArguments &StepArguments::index(int64_t value) {
  StepArgument argument;
  argument.kind = StepArgument::Kind::index, argument.index = value;
  arguments_.push_back(argument);
  return *this;
}

StepArguments &StepArguments::number(float value) {
  StepArgument argument;
  argument.kind = StepArgument::Kind::number, argument.number = value;
  arguments_.push_back(argument);
  return *this;
}

StepArguments &StepArguments::firstRow() {
  arguments_.emplace_back().kind = StepArgument::Kind::firstRow;
  return *this;
}

StepArguments &StepArguments::sequence() {
  arguments_.emplace_back().kind = StepArgument::Kind::sequence;
  return *this;
}

// ---- Building ------------------------------------------------------------------------------------------

int64_t Program::Rows::chunks() const {
  return std::max<int64_t>(1, (all + chunk - 1) / std::max<int64_t>(1, chunk));
}

int Program::addKernel(Kernel kernel, const CompileOptions &options, int tag) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const JitRequest &other = requests_[i];
    if (other.kernel.name == kernel.name && other.kernel.specialisation == kernel.specialisation &&
        other.options.str() == options.str())
      return static_cast<int>(i);
  }
  requests_.push_back({std::move(kernel), options});
  kernelTags_.push_back(tag);
  return static_cast<int>(requests_.size()) - 1;
}

Step &Program::addLaunch(int kernel, const StepArguments &arguments) {
  Step &step = steps_.emplace_back();
  step.kernel = kernel;
  step.firstArgument = static_cast<int>(arguments_.size());
  step.arguments = static_cast<int>(arguments.all().size());
  arguments_.insert(arguments_.end(), arguments.all().begin(), arguments.all().end());
  return step;
}

Step &Program::addFill(TensorId id, uint8_t byte) {
  Step &step = addLaunch(-1, StepArguments(table_).tensor(id));
  step.fillByte = byte;
  return step;
}

Status Program::loadKernels(Runtime &runtime) {
  // A small kernel first, which tells whether to compile at all; then those that take the longest, so that no
  // thread is left with one at the end.
  std::vector<std::size_t> order(requests_.size());
  std::iota(order.begin(), order.end(), 0);
  if (!order.empty())
    std::stable_partition(order.begin() + 1, order.end(), [&](std::size_t i) { return kernelTags_[i] >= 0; });
  std::vector<JitRequest> requests;
  for (const std::size_t i : order)
    requests.push_back(requests_[i]);
  TW_ASSIGN_OR_RETURN(const std::vector<KernelHandle> made, jitAll(runtime, requests));
  kernels_.resize(made.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    kernels_[order[i]] = made[i];
  return Status();
}

Status Program::compileTagged(Runtime &runtime, int tag) const {
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (kernelTags_[i] == tag)
      TW_RETURN_IF_ERROR(jit(runtime, requests_[i].kernel, requests_[i].options).status());
  return Status();
}

// ---- Running -------------------------------------------------------------------------------------------

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

private:
  char *addressOf(TensorId id, const ProgramMemory &memory) const {
    const TensorEntry &entry = p_.table_[id];
    const TensorEntry &owner = entry.aliasOf == kNoTensor ? entry : p_.table_[entry.aliasOf];
    if (id == p_.status_ && memory.status) return static_cast<char *>(memory.status);
    if (owner.arena == Arena::caller)
      return static_cast<char *>(memory.callers[entry.aliasOf == kNoTensor ? id : entry.aliasOf]);
    return (owner.arena == Arena::workspace ? memory.workspace : memory.borrowed) + owner.offset;
  }

  void selectChunk(int64_t chunk) {
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
    tensor.data = bases_[argument.id] + (first * stride + argument.columns.first) * elementSize;
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
  int64_t firstRow_ = 0, chunkRows_ = 0;
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

int64_t Program::launches() const {
  int64_t count = 0;
  const int64_t chunks = rows_.chunks();
  for (const Step &step : steps_)
    for (int64_t chunk = 0; chunk < (step.perChunk ? chunks : 1); ++chunk) {
      const uint8_t turn = chunk == 0 ? kFirstTurn : chunk + 1 == chunks ? kLastTurn : kMiddleTurns;
      count += !step.perChunk || (step.turns & turn);
    }
  return count;
}

// ---- Printing ------------------------------------------------------------------------------------------

namespace {

std::string describe(const StepArgument &argument, const TensorTable &table) {
  switch (argument.kind) {
  case StepArgument::Kind::index:
    return std::to_string(argument.index);
  case StepArgument::Kind::number:
    return std::to_string(argument.number);
  case StepArgument::Kind::firstRow:
    return "first row";
  case StepArgument::Kind::sequence:
    return "sequence";
  case StepArgument::Kind::tensor:
    break;
  }
  std::string text = table[argument.id].name;
  if (argument.rows.first > 0 || argument.rows.end != RowWindow().end)
    text += "[rows from " + std::to_string(argument.rows.first) + "]";
  if (argument.columns.count >= 0)
    text += "[:, " + std::to_string(argument.columns.first) + ":" +
            std::to_string(argument.columns.first + argument.columns.count) + "]";
  return text;
}

} // namespace

std::string Program::str() const {
  std::string text = table_.str();
  for (const Step &step : steps_) {
    text += step.perChunk ? "  for each chunk: " : "  ";
    text += step.kernel < 0 ? "fill " + std::to_string(step.fillByte) : requests_[step.kernel].kernel.name;
    text += "(";
    for (int i = 0; i < step.arguments; ++i)
      text += (i ? ", " : "") + describe(arguments_[step.firstArgument + i], table_);
    text += ")";
    if (step.turns != kEveryTurn)
      text += step.turns == kFirstTurn ? " first" : step.turns == kLastTurn ? " last" : " later";
    if (step.classes.end >= 0)
      text += " classes " + std::to_string(step.classes.first) + " to " + std::to_string(step.classes.end);
    text += "\n";
  }
  return text;
}

} // namespace tilewright

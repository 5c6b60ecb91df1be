#include "kernels/program/program.h"

#include <algorithm>
#include <numeric>

namespace tilewright {

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

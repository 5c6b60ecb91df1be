#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "kernels/jit.h"
#include "kernels/program/tensor_table.h"
#include "runtime/device.h"
#include "runtime/runtime.h"

namespace tilewright {

/// Some of the rows that a step sees of a tensor: [first, end), cut to those that there are.
struct RowWindow {
  int64_t first = 0, end = std::numeric_limits<int64_t>::max();
  int64_t group = 1; ///< the tensor has one row for each group of so many of those rows, and at least one,
  int64_t extra = 0; ///< and so many more
};

struct ColumnWindow {
  int64_t first = 0, count = -1; ///< -1: all
};

/// What a kernel's parameter is bound to: a part of a tensor, or a number.
struct StepArgument {
  enum class Kind : uint8_t {
    tensor,
    index,    ///< `index`
    number,   ///< `number`
    firstRow, ///< the number of the chunk's first row, an index
    sequence, ///< the number of the run, an index; see CallStatus
  };
  Kind kind = Kind::tensor;
  TensorId id = kNoTensor;
  RowWindow rows;
  ColumnWindow columns;
  int64_t index = 0;
  float number = 0;
};

/// The arguments of a step, in the order of its kernel's parameters. A tensor that the call does not have is
/// left out: the kernel that is compiled for such a call has no parameter for it.
class StepArguments {
public:
  explicit StepArguments(const TensorTable &table) : table_(table) {}

  StepArguments &tensor(TensorId id, RowWindow rows = {}, ColumnWindow columns = {});
  StepArguments &tensors(std::initializer_list<TensorId> ids);
  StepArguments &index(int64_t value);
  StepArguments &number(float value);
  StepArguments &firstRow();
  StepArguments &sequence();

  const std::vector<StepArgument> &all() const { return arguments_; }

private:
  const TensorTable &table_;
  std::vector<StepArgument> arguments_;
};

/// In which turns of the loop over chunks a step is done; bits. If there is one chunk, its turn is a first
/// one.
enum Turns : uint8_t {
  kFirstTurn = 1,
  kMiddleTurns = 2,
  kLastTurn = 4,
  kLaterTurns = kMiddleTurns | kLastTurn,
  kEveryTurn = kFirstTurn | kLaterTurns,
};

/// Classes [first, end) of V: tensors of extent `classes` are cut to those.
struct ClassWindow {
  int64_t first = 0, end = -1; ///< -1: all classes
};

/// A launch of a kernel, or a fill of a tensor's bytes.
struct Step {
  int kernel = -1; ///< -1: a fill of the first argument with `fillByte`
  uint8_t fillByte = 0;
  uint8_t turns = kEveryTurn;
  bool perChunk = false;   ///< done for each chunk; neighbours that are, too, form the loop's body
  int skippedWithout = -1; ///< the step is left out where this argument, a tensor, has no rows; -1: never
  ClassWindow classes;
  int tag = -1;  ///< see `Program::runTagged`
  int part = -1; ///< see `Program::runPart`
  int firstArgument = 0, arguments = 0;
};

/// Where the tensors of one run lie, and what is its own.
struct ProgramMemory {
  char *workspace = nullptr;      ///< `TensorTable::workspaceBytes`, aligned to `kTensorAlignment`
  char *borrowed = nullptr;       ///< aligned alike
  void *const *callers = nullptr; ///< addresses of the tensors in `Arena::caller`, by their ids
  void *status = nullptr;         ///< in place of the status words in the workspace
  int64_t sequence = 0;
};

/// A call, ready to be made: its tensors, its kernels, and the steps from inputs to outputs. Plain data, but
/// for the loaded kernels. After `loadKernels` it does not change, and any thread may run it.
class Program {
public:
  /// Of all rows, and of a chunk of them.
  struct Rows {
    int64_t all = 0, chunk = 0;
    int64_t chunks() const; ///< at least 1
  };

  Program() = default;
  /// The table is placed.
  Program(const TensorTable &table, Rows rows, TensorId status)
      : table_(table), rows_(rows), status_(status) {}

  // ---- Building ----

  /// Returns the number by which steps launch it; the same for equal kernels. `tag` as of steps.
  int addKernel(Kernel kernel, const CompileOptions &options = {}, int tag = -1);
  Step &addLaunch(int kernel, const StepArguments &arguments);
  Step &addFill(TensorId id, uint8_t byte);

  /// All that were added.
  const std::vector<JitRequest> &kernels() const { return requests_; }

  /// Makes all kernels that are not loaded yet; those that are tagged first, for they take the longest to
  /// compile.
  Status loadKernels(Runtime &runtime);
  /// Those of one tag alone, one after the other: whoever compiles many has threads enough.
  Status compileTagged(Runtime &runtime, int tag) const;

  // ---- Running ----

  /// Enqueues all steps. Allocates nothing from the heap.
  Status run(Device &device, const ProgramMemory &memory, Stream stream) const;
  /// Enqueues the steps of one tag; those of the loop over chunks for the last chunk.
  Status runTagged(Device &device, const ProgramMemory &memory, Stream stream, int tag) const;
  /// Enqueues the steps of one part of the call; those of the loop over chunks for this chunk.
  Status runPart(Device &device, const ProgramMemory &memory, Stream stream, int part, int64_t chunk) const;

  const TensorTable &table() const { return table_; }
  const Rows &rows() const { return rows_; }
  TensorId statusTensor() const { return status_; }
  const std::vector<Step> &steps() const { return steps_; }
  int64_t launches() const; ///< launches and fills of a run
  std::string str() const;  ///< a line for each tensor and each step

private:
  friend class ProgramRun;

  TensorTable table_;
  Rows rows_;
  TensorId status_ = kNoTensor;
  std::vector<JitRequest> requests_;
  std::vector<int> kernelTags_;
  std::vector<KernelHandle> kernels_;
  std::vector<Step> steps_;
  std::vector<StepArgument> arguments_;
};

} // namespace tilewright

#pragma once

#include "compiler/nvptx/threads/chip_memory.h"
#include "compiler/nvptx/threads/elements.h"
#include "compiler/nvptx/threads/kernel_memory.h"
#include "mlir/IR/IRMapping.h"

namespace tilewright::nvptx {

/// A tensor in global or shared memory: its address and sizes are i64 values.
struct MemoryView {
  Value root; ///< the kernel's argument, or what made it on chip
  Num pointer;
  SmallVector<Num, 2> sizes;
  Num rowStride{nullptr, {}}; ///< rank 2
  Type element;
  bool isShared = false;
};

/// What the parts of a kernel's lowering share: what is known of the kernel, and what its values have become
/// in the code of one thread.
class Lowering {
public:
  Lowering(mlir::func::FuncOp kernel, const LoweringOptions &options, Emitter &emitter);

  mlir::func::FuncOp function() const { return kernel; }
  const LoweringOptions &options() const { return options_; }
  const Layouts &layouts() const { return layouts_; }
  const KernelMemory &memory() const { return memory_; }

  Emitter &emitter() { return e; }
  AccessOrder &order() { return order_; }
  ChipMemory &chip() { return chip_; }
  const ChipMemory &chip() const { return chip_; }
  Elements &elements() { return elements_; }

  /// Code for a team begins where the builder is: the kernel's parameters are those of `lowered`.
  void begin(mlir::func::FuncOp lowered, Num sharedMemory);
  const MemoryView &view(Value value) const { return views.find(value)->second; }
  void setView(Value value, MemoryView view) { views.try_emplace(value, std::move(view)); }
  Num scalar(Value index) { return e.fromIndex(mapped(index)); } ///< as i64
  Value mapped(Value scalar) const { return scalars.lookupOrDefault(scalar); }
  void setScalar(Value scalar, Value value) { scalars.map(scalar, value); }
  void clone(mlir::Operation &op) { e.b.clone(op, scalars); } ///< of scalars

  /// Which register rows a load of rows by their numbers finds (i32, a bit each), where that is known ahead.
  /// Its other rows are zeros, and threads that have no row go past it.
  std::optional<Num> presentRows(mlir::Operation *load) const;
  void setPresentRows(mlir::Operation *load, Num bits) { present.insert_or_assign(load, bits); }

  /// This thread's position along an axis.
  Num position(const layout::AxisMap &map, int64_t reg);
  Num threadPosition(const layout::AxisMap &map); ///< without the register's offset
  /// The same of another thread of the team.
  Num positionOf(const layout::AxisMap &map, Num thread);
  /// What depends on the thread's number is computed anew from here on. LLVM would else move all of it out of
  /// a loop over programs, where it takes registers while the product needs them.
  void forgetPositions();

private:
  void bindParameters(mlir::func::FuncOp lowered);

  mlir::func::FuncOp kernel;
  const LoweringOptions &options_;
  const Layouts layouts_;
  const KernelMemory memory_;
  Emitter &e;
  AccessOrder order_;
  ChipMemory chip_;
  Elements elements_;
  mlir::DenseMap<Value, MemoryView> views;
  mlir::IRMapping scalars;
  mlir::DenseMap<mlir::Operation *, Num> present;
  mlir::DenseMap<const layout::AxisMap *, Value> threadPositions;
  Value teamEntry; ///< behind it stands what only depends on the thread
};

} // namespace tilewright::nvptx

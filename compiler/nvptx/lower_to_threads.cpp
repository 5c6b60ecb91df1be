#include "compiler/nvptx/function_lowering.h"
#include "compiler/nvptx/passes.h"
#include "compiler/nvptx/specialize_warps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"

namespace tilewright::nvptx {

#define GEN_PASS_DEF_LOWERTOTHREADS
#include "compiler/nvptx/passes.h.inc"

using namespace mlir;

/// Dynamic shared memory: its size is the launch's. Stages that are swizzled by 128 bytes begin at multiples
/// of 1024.
static void declareSharedMemory(ModuleOp module) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), 0);
  builder.create<LLVM::GlobalOp>(module.getLoc(), type, /*isConstant=*/false, LLVM::Linkage::External,
                                 "shared_memory", Attribute(), /*alignment=*/1024, /*addrSpace=*/3);
}

/// Programmatic dependent launch: CTAs take their places while the launch before them in the stream ends, and
/// wait here until all that it wrote can be seen. Then those of the next launch may take theirs. Products do
/// not: their CTAs would begin wherever others end first, out of the order in which they share what they
/// read.
static void waitForLaunchBefore(func::FuncOp lowered) {
  OpBuilder builder = OpBuilder::atBlockBegin(&lowered.getBody().front());
  Emitter e(lowered.getLoc(), builder);
  e.ptx({}, "griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;", "~{memory}", {}, true);
  lowered->setAttr("starts_early", builder.getUnitAttr());
}

/// Whether each position of an axis is held once by the threads that differ in the map's bits.
static bool holdsEachOnce(const layout::AxisMap &map, int64_t extent) {
  std::vector<int> holders(map.span());
  const int64_t mask = map.threadMask();
  for (int64_t thread = mask;; thread = (thread - 1) & mask) { // all that have bits of the mask only
    for (int64_t reg = 0; reg < map.registers(); ++reg) {
      const int64_t position = map.position(thread, reg);
      if (position < 0 || position >= map.span()) return false;
      ++holders[position];
    }
    if (thread == 0) break;
  }
  return map.extent == extent && map.span() >= extent && llvm::all_of(holders, [](int n) { return n == 1; });
}

/// Every element of every tile has one thread and its replicas, and no thread has more than it can work on.
static LogicalResult checkLayouts(func::FuncOp kernel, const LoweringOptions &options) {
  constexpr int64_t kMostRegisters = 512; // of a tile: more than twice what a thread has in all
  const Layouts layouts(kernel, options);
  auto isSound = [&](TileLayout layout, RankedTensorType type) {
    const bool isDisjoint = !(layout.rows->threadMask() & layout.columns->threadMask());
    return isDisjoint && layout.threadMask() < layouts.threads() &&
           holdsEachOnce(*layout.rows, type.getDimSize(0)) &&
           holdsEachOnce(*layout.columns, type.getDimSize(1));
  };
  auto check = [&](Operation *op, Value tile) -> LogicalResult {
    const RankedTensorType type = tile::tileType(tile);
    const TileLayout layout = layouts.of(tile);
    if (layout.registers() > kMostRegisters)
      return op->emitError("makes a tile of ")
             << type.getDimSize(0) << "x" << type.getDimSize(1) << ", which is " << layout.registers()
             << " numbers for each of " << layouts.threads() << " threads; expected at most "
             << kMostRegisters << ": use smaller blocks";
    const bool isProduct = isa<tile::ContractOp, tile::DotOp>(op);
    if (isSound(layout, type) && (!isProduct || isSound(layouts.ofProduct(op), type))) return success();
    return op->emitError("has a layout that does not hold each element once");
  };
  WalkResult result = kernel.walk([&](Operation *op) -> WalkResult {
    for (Value value : op->getResults())
      if (isTile(value) && failed(check(op, value))) return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

static std::string str(TileLayout layout) {
  return "rows " + layout::str(*layout.rows) + "; columns " + layout::str(*layout.columns);
}

/// Notes on each op that makes a tile who holds what of it, and on the kernel how many threads there are.
static void explainLayouts(func::FuncOp kernel, const LoweringOptions &options) {
  Builder b(kernel.getContext());
  const std::optional<WarpPlan> plan = planOf(kernel);
  const Layouts layouts(kernel, plan ? plan->consumers(options) : options);
  kernel->setAttr("threads", b.getI64IntegerAttr(layouts.threads()));
  kernel.walk([&](Operation *op) {
    SmallVector<Attribute> ofResults;
    for (Value result : op->getResults())
      if (isTile(result)) ofResults.push_back(b.getStringAttr(str(layouts.of(result))));
    if (ofResults.size() == 1) op->setAttr("layout", ofResults.front());
    if (ofResults.size() > 1) op->setAttr("layout", b.getArrayAttr(ofResults));
    const bool isProduct = isa<tile::ContractOp, tile::DotOp>(op);
    if (isProduct && !(layouts.ofProduct(op) == layouts.of(op->getResult(0))))
      op->setAttr("accumulators", b.getStringAttr(str(layouts.ofProduct(op))));
  });
}

namespace {

struct LowerToThreadsPass : impl::LowerToThreadsBase<LowerToThreadsPass> {
  using LowerToThreadsBase::LowerToThreadsBase;

  void runOnOperation() override {
    LoweringOptions options;
    options.warps = warps;
    options.tf32 = tf32;
    options.stages = stages;
    options.step = step;
    options.sharedLimit = sharedLimit;
    options.hopper = hopper;
    options.rasterRows = rasterRows;
    if (!explain) declareSharedMemory(getOperation());
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (!kernel->hasAttr(tile::kKernelAttr)) continue;
      if (failed(checkTiles(kernel))) return signalPassFailure();
      if (explain)
        explainLayouts(kernel, options);
      else if (failed(lower(kernel, options)))
        return signalPassFailure();
    }
    if (explain) return;
    for (auto lowered : getOperation().getOps<func::FuncOp>())
      if (startsEarly && !lowered->hasAttr("product")) waitForLaunchBefore(lowered);
  }

  static LogicalResult lower(func::FuncOp kernel, const LoweringOptions &options) {
    if (const std::optional<WarpPlan> plan = planOf(kernel)) {
      if (plan->isRequired) return lowerWithRoles(kernel, options, *plan);
      if (succeeded(tryRoles(kernel, options, *plan))) return success();
    }
    if (failed(checkLayouts(kernel, options))) return failure();
    OpBuilder builder(kernel);
    Emitter emitter(kernel.getLoc(), builder);
    return FunctionLowering(kernel, options, emitter).run();
  }

  static LogicalResult lowerWithRoles(func::FuncOp kernel, const LoweringOptions &options,
                                      const WarpPlan &plan) {
    if (failed(checkLayouts(kernel, plan.consumers(options)))) return failure();
    return lowerSpecialized(kernel, options, plan);
  }

  /// Roles that nobody asked for are left where the kernel turns out to need more than they have, such as
  /// shared memory for sums across warps. Then `kernel` is as it was, in a copy, and says why.
  static LogicalResult tryRoles(func::FuncOp &kernel, const LoweringOptions &options, const WarpPlan &plan) {
    Block *module = kernel->getBlock();
    llvm::SmallPtrSet<Operation *, 4> before;
    for (Operation &op : *module)
      if (&op != kernel) before.insert(&op);
    func::FuncOp copy = kernel.clone();
    std::string reason;
    {
      ScopedDiagnosticHandler listener(kernel.getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error) reason = diagnostic.str();
        return success();
      });
      if (succeeded(lowerWithRoles(kernel, options, plan))) return copy.erase(), success();
    }
    for (Operation &op : llvm::make_early_inc_range(*module))
      if (!before.contains(&op)) op.erase();
    module->push_back(copy);
    kernel = copy;
    setAlike(kernel, reason);
    emitRemark(kernel.getLoc()) << "'" << kernel.getName() << "': all warps of a CTA do the same: it "
                                << reason;
    return failure();
  }
};

} // namespace

} // namespace tilewright::nvptx

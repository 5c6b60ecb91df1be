#include "compiler/dialect/launch_notes.h"
#include "compiler/nvptx/hopper/specialize_warps.h"
#include "compiler/nvptx/passes.h"
#include "compiler/nvptx/threads/function_lowering.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"
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
/// wait here until all that it wrote can be seen. Then those of the next launch may take theirs. Of products
/// those by warps with roles can start so, and a launch says whether one does. Their CTAs take a
/// multiprocessor each: the next launch finds room on those that have no tile left. While another kernel's
/// CTAs work, a product's would take places in the order in which those end, and neighbours among them would
/// find less in the second-level cache.
///
/// A kernel that runs beside the launch before it begins at once, and its first CTAs wait at their end. So it
/// is over when both are, and whoever waits for it has waited for both.
static void waitForLaunchBefore(func::FuncOp lowered, bool nextIsProduct, bool runsBeside) {
  LaunchNotes notes = LaunchNotes::of(lowered);
  if (notes.hasProduct && !notes.persistent) return;
  auto say = [&](Operation *before, const char *code) {
    OpBuilder builder(before);
    Emitter(lowered.getLoc(), builder).ptx({}, code, "~{memory}", {}, true);
  };
  Operation *first = &lowered.getBody().front().front(), *end = lowered.getBody().back().getTerminator();
  if (notes.hasProduct) nextIsProduct = runsBeside = false; // which only other kernels can ask for
  if (!runsBeside) say(first, "griddepcontrol.wait;");
  say(nextIsProduct ? end : first, "griddepcontrol.launch_dependents;");
  if (runsBeside)
    say(end, "{ .reg .pred waits; .reg .u32 cta;\n\t"
             "mov.u32 cta, %ctaid.x;\n\t"
             "setp.eq.u32 waits, cta, 0;\n\t"
             "@waits griddepcontrol.wait; }");
  notes.startsEarly = true;
  notes.write(lowered);
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
    options.wgmma = wgmma;
    options.rasterRows = rasterRows;
    declareSharedMemory(getOperation());
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (!kernel->hasAttr(tile::kKernelAttr)) continue;
      if (failed(lower(kernel, options))) return signalPassFailure();
    }
    for (auto lowered : getOperation().getOps<func::FuncOp>())
      if (startsEarly) waitForLaunchBefore(lowered, nextIsProduct, runsBeside);
  }

  static LogicalResult lower(func::FuncOp kernel, const LoweringOptions &options) {
    if (!kernel->hasAttr(kThreadsAttr))
      return kernel.emitError("has no layouts: expected assign-layouts to have run");
    if (const std::optional<WarpPlan> plan = planOf(kernel)) {
      if (plan->isRequired) return lowerWithRoles(kernel, options, *plan);
      if (succeeded(tryRoles(kernel, options, *plan))) return success();
      if (failed(Layouts(kernel, options).write(kernel))) return failure(); // of warps that are alike
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

#include "compiler/dump.h"

#include <algorithm>
#include <fstream>

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/raw_ostream.h"

#include "compiler/base/log.h"
#include "compiler/diagnostics.h"

using namespace mlir;

namespace tilewright {
namespace {

struct StageFile {
  const char *name; ///< as TILEWRIGHT_DUMP writes it
  const char *ending;
};

StageFile stageFile(Stage stage) {
  switch (stage) {
  case Stage::tile:
    return {"tile", ".tile.mlir"};
  case Stage::lowered:
    return {"lowered", ".lowered.mlir"};
  case Stage::plan:
  case Stage::layout:
    return {"", ""}; // `emit` alone makes them
  case Stage::llvm:
    return {"llvm", ".ll"};
  case Stage::assembly:
    return {"assembly", ".s"};
  }
  return {"", ""};
}

// Remembers the module as it was before the pass that failed, in the form that --run-reproducer reads.
class FailureRecorder : public PassInstrumentation {
public:
  FailureRecorder(std::string &pass, std::string &reproducer) : pass_(pass), reproducer_(reproducer) {}

  void runBeforePass(Pass *pass, Operation *op) override {
    // Adaptors, which run a nested list, have no name: the pass inside is what can fail.
    if (pass->getArgument().empty()) return;
    before_.clear();
    llvm::raw_string_ostream stream(before_);
    std::string pipeline = pipelineOf(*pass, op);
    Operation *module = op;
    while (module->getParentOp())
      module = module->getParentOp();
    AsmState state(module, OpPrintingFlags().printGenericOpForm(false));
    state.attachResourcePrinter("mlir_reproducer", [&](Operation *, AsmResourceBuilder &builder) {
      builder.buildString("pipeline", pipeline);
      builder.buildBool("disable_threading", true);
      builder.buildBool("verify_each", true);
    });
    module->print(stream, state);
  }

  void runAfterPassFailed(Pass *pass, Operation *) override {
    if (!pass_.empty() || pass->getArgument().empty()) return;
    pass_ = pass->getArgument().str();
    reproducer_ = before_;
  }

private:
  static std::string pipelineOf(Pass &pass, Operation *op) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    bool nested = op->getParentOp();
    stream << ModuleOp::getOperationName() << "(";
    if (nested) stream << op->getName() << "(";
    pass.printAsTextualPipeline(stream);
    stream << (nested ? "))" : ")");
    return text;
  }

  std::string &pass_, &reproducer_;
  std::string before_;
};

LogicalResult run(ModuleOp module, const std::function<void(OpPassManager &)> &addPasses,
                  std::string &messages, std::unique_ptr<PassInstrumentation> instrumentation) {
  const Diagnostics diagnostics(*module.getContext());
  auto keepMessages = llvm::make_scope_exit([&] { messages = diagnostics.errors(); });
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  addPasses(passes);
  if (!instrumentation) { // what the last pass leaves is looked at, not what each does
    passes.enableVerifier(false);
    return success(succeeded(passes.run(module)) && succeeded(verify(module)));
  }
  passes.addInstrumentation(std::move(instrumentation));
  return passes.run(module);
}

} // namespace

Dump::Dump(const Environment &environment, const std::string &kernel, const std::string &fingerprint)
    : environment_(environment), kernel_(kernel),
      stem_((environment.dumpDir.empty() ? "." : environment.dumpDir) + "/" + kernel + "-" +
            fingerprint.substr(0, 8)) {}

bool Dump::wants(Stage stage) const {
  const auto &stages = environment_.dump;
  return std::find(stages.begin(), stages.end(), stageFile(stage).name) != stages.end();
}

void Dump::write(Stage stage, const std::string &text) const {
  writeFile(stem_ + stageFile(stage).ending, text);
}

bool Dump::writeFile(const std::string &path, const std::string &text) const {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return true;
  logWarning("cannot write " + path + "; TILEWRIGHT_DUMP_DIR names the folder that dumps go to");
  return false;
}

Status Dump::runPasses(ModuleOp module, const std::function<void(OpPassManager &)> &addPasses) const {
  OwningOpRef<ModuleOp> before(module.clone());
  std::string messages;
  if (succeeded(run(module, addPasses, messages, nullptr))) return {};
  // Once more, with a printer before each pass: what costs time is done only when something is wrong.
  std::string pass, reproducer;
  (void)run(*before, addPasses, messages, std::make_unique<FailureRecorder>(pass, reproducer));
  const std::string path = stem_ + "." + pass + ".mlir";
  // A file that nobody asked for has no place in the caller's working directory.
  const bool isAskedFor = !environment_.dumpDir.empty() || !environment_.dump.empty();
  std::string repeat = "; set TILEWRIGHT_DUMP_DIR for a file that repeats it";
  if (isAskedFor)
    repeat = writeFile(path, reproducer) ? "; to repeat it: tile-opt --run-reproducer " + path : "";
  return compileError("kernel '" + kernel_ + "': pass '" + pass + "' failed: " + messages + repeat);
}

} // namespace tilewright

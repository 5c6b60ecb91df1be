#pragma once

#include <functional>
#include <string>

#include "compiler/base/env.h"
#include "compiler/base/status.h"
#include "compiler/compile.h"

namespace mlir {
class ModuleOp;
class OpPassManager;
} // namespace mlir

namespace tilewright {

/// Files about one compilation, `KERNEL-DIGEST.STAGE` in the environment's dump folder. A file that cannot be
/// written costs a warning, never the compilation.
class Dump {
public:
  /// `fingerprint` tells kernels of one name apart, and what each is compiled for.
  Dump(const Environment &environment, const std::string &kernel, const std::string &fingerprint);

  /// Whether TILEWRIGHT_DUMP asks for the stage.
  bool wants(Stage stage) const;
  void write(Stage stage, const std::string &text) const;

  /// Runs a list of passes. A compile error names the pass that failed, with what it said, and, where dumps
  /// or their folder were asked for, the file that repeats the failure: `tile-opt --run-reproducer FILE`.
  Status runPasses(mlir::ModuleOp module, const std::function<void(mlir::OpPassManager &)> &addPasses) const;

private:
  bool writeFile(const std::string &path, const std::string &text) const;

  Environment environment_;
  std::string kernel_;
  std::string stem_; ///< path of every file, but for its end
};

} // namespace tilewright

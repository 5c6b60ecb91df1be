#pragma once

#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"
#include "compiler/options.h"
#include "compiler/target.h"

namespace tilewright {

/// One of this library's kernels, for people who want to look at it: `make` writes it for a type of its main
/// inputs, with a block shape that suits a large problem.
struct CatalogEntry {
  std::string name;
  std::string summary;
  Kernel (*make)(ElementType element);
  /// As the losses compile it, but for what an autotuner chooses: products' schedules.
  CompileOptions (*options)(TargetKind target) = [](TargetKind) { return CompileOptions(); };
};

/// Every kernel of the losses and the examples.
const std::vector<CatalogEntry> &kernelCatalog();

/// The kernel called `name`; a user error lists the names there are.
StatusOr<CatalogEntry> findKernel(const std::string &name);

} // namespace tilewright

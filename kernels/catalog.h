#pragma once

#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"

namespace tilewright {

/// One of this library's kernels, for people who want to look at it: `make` writes it for a type of its main
/// inputs, with a block shape that suits a large problem.
struct CatalogEntry {
  std::string name;
  std::string summary;
  Kernel (*make)(ElementType element);
};

/// Every kernel of the losses and the examples.
const std::vector<CatalogEntry> &kernelCatalog();

/// The kernel called `name`; a user error lists the names there are.
StatusOr<Kernel> findKernel(const std::string &name, ElementType element);

} // namespace tilewright

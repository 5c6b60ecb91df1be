#pragma once

#include <string>
#include <vector>

#include "kernels/lce/config.h"

namespace tilewright::lce {

/// A product of a call: its sizes, and its name in a configuration's text.
struct ProductSpec : ProductShape {
  const char *name;
  ProductKind kind;
};

/// The products of a chunk of `chunk` rows whose result is wanted.
std::vector<ProductSpec> productsOf(const Scheme &scheme, int64_t chunk);

// The names of a product's parameters in a configuration.
std::string rowsOf(const ProductSpec &product);
std::string columnsOf(const ProductSpec &product);
std::string stepOf(const ProductSpec &product);
std::string rolesOf(const ProductSpec &product);
std::string stagesOf(const ProductSpec &product);
std::string rasterOf(const ProductSpec &product);
std::string clusterOf(const ProductSpec &product);

} // namespace tilewright::lce

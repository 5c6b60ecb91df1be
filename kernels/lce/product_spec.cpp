#include "kernels/lce/product_spec.h"

#include <algorithm>

namespace tilewright::lce {

std::vector<ProductSpec> productsOf(const Scheme &scheme, int64_t chunk) {
  Config config;
  config.chunkRows = std::min(chunk, scheme.rows);
  std::vector<ProductSpec> products;
  const auto add = [&](const char *name, ProductKind kind) {
    products.push_back({shapeOf(scheme, kind, config), name, kind});
  };
  add("forward", ProductKind::forward);
  if (scheme.dHidden) add("dx", ProductKind::dHidden);
  if (scheme.dWeight) add("dw", ProductKind::dWeight);
  if (scheme.hasSecondPass) add("again", ProductKind::again);
  return products;
}

std::string rowsOf(const ProductSpec &p) { return std::string(p.name) + "_rows"; }
std::string columnsOf(const ProductSpec &p) { return std::string(p.name) + "_columns"; }
std::string stepOf(const ProductSpec &p) { return std::string(p.name) + "_step"; }
std::string rolesOf(const ProductSpec &p) { return std::string(p.name) + "_roles"; }
std::string stagesOf(const ProductSpec &p) { return std::string(p.name) + "_stages"; }
std::string rasterOf(const ProductSpec &p) { return std::string(p.name) + "_raster"; }
std::string clusterOf(const ProductSpec &p) { return std::string(p.name) + "_cluster"; }

} // namespace tilewright::lce

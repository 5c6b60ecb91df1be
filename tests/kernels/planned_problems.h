#pragma once

#include <gtest/gtest.h>

#include "kernels/lce/plan.h"
#include "kernels/lce/tensors.h"
#include "runtime/device.h"

namespace tilewright::lce {

/// Problems of linear cross entropy and their plans, which tests ask for in one line.

inline Request problem(int64_t rows, int64_t hidden, int64_t classes,
                       ElementType element = ElementType::f32) {
  Request p;
  p.rows = rows, p.hidden = hidden, p.classes = classes;
  p.element = element;
  p.dHidden = p.dWeight = element;
  return p;
}

inline Scheme chunked(const Request &request) { return schemeFor(request, Variant::chunked); }
inline Scheme recomputed(const Request &request) { return schemeFor(request, Variant::recompute); }

/// Of a plan's own scheme.
inline int64_t bytesOf(const Request &request, const Config &config) {
  const TensorTable table = tensorsOf(schemeFor(request, config.variant), config);
  EXPECT_TRUE(table.fitsBorrowed()) << config.str();
  return table.workspaceBytes();
}

inline DeviceInfo machine(int units) {
  DeviceInfo info;
  info.units = units;
  return info;
}

inline Config planned(const Request &problem, int64_t limit = 0, int units = 2,
                      Variant variant = Variant::automatic) {
  const StatusOr<Config> config = plan(problem, variant, limit, machine(units));
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *config : Config();
}

} // namespace tilewright::lce

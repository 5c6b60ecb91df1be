#include <algorithm>

#include "kernels/lce/estimate.h"
#include "kernels/lce/product_spec.h"
#include "kernels/lce/search.h"
#include "kernels/lce/tensors.h"
#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

using Roles = Schedule::WarpRoles;

// The step that the CPU's lowering takes where a configuration's step is 0.
constexpr int64_t kChosenStep = 256;

// Moving one number into a packed panel costs as much as this many multiply-adds.
constexpr double kPackCost = 10;

/// A product in a configuration that is known to be readable.
struct Work {
  ProductSpec spec;
  Product product;
  double rounds; ///< tiles that the busiest worker computes

  int64_t programs() const {
    return ceilDiv(spec.rows, product.block.rows) * ceilDiv(spec.columns, product.block.columns);
  }
  int64_t step() const { return product.contractionStep > 0 ? product.contractionStep : kChosenStep; }
  double area() const { return static_cast<double>(product.block.rows * product.block.columns); }
};

using WorkRule = std::function<bool(const Work &)>;

class Rules {
public:
  Rules(const Scheme &scheme, const Config &heuristic, const DeviceInfo &device)
      : scheme_(scheme), heuristic_(heuristic), device_(device) {}

  std::vector<Work> worksOf(const Configuration &configuration) const {
    std::vector<Work> works;
    const StatusOr<Config> config = configOf(configuration, scheme_, device_);
    if (config.ok())
      for (const ProductSpec &spec : productsOf(scheme_, config->chunkRows))
        works.push_back(workOf(*config, spec));
    return works;
  }

  /// The same product in the untuned one's blocks.
  Work untuned(const Work &work) const { return workOf(heuristic_, work.spec); }

  /// A rule that excludes a configuration if it holds for one of its products.
  void prune(CostModel &model, std::string reason, WorkRule rule) const {
    model.prune(std::move(reason), [self = *this, rule = std::move(rule)](const Configuration &c) {
      const std::vector<Work> works = self.worksOf(c);
      return std::any_of(works.begin(), works.end(),
                         [&](const Work &work) { return !self.isHeuristic(work) && rule(work); });
    });
  }

private:
  Work workOf(const Config &config, const ProductSpec &spec) const {
    return {spec, config[spec.kind], roundsOf(config, spec.kind, spec, device_)};
  }
  /// A rule that excluded what all other parameters are tried with would exclude everything.
  bool isHeuristic(const Work &work) const { return work.product.str() == heuristic_[work.spec.kind].str(); }

  Scheme scheme_;
  Config heuristic_;
  DeviceInfo device_;
};

/// Accumulators and packed panels of one program.
double scratchBytes(const Work &work, ElementType element) {
  const Block &block = work.product.block;
  return 4 * work.area() + static_cast<double>((block.rows + block.columns) * work.step() *
                                               static_cast<int64_t>(elementBytes(element)));
}

/// What a block has of `size` in the mean.
double mean(int64_t size, int64_t extent) {
  return static_cast<double>(size) / static_cast<double>(ceilDiv(size, extent));
}

/// Multiply-adds of all workers while the busiest one works, over those that are needed.
double excess(const Work &work, const DeviceInfo &device) {
  return work.rounds * device.units * work.area() /
         (static_cast<double>(work.spec.rows) * static_cast<double>(work.spec.columns));
}

/// Multiply-adds of the busiest worker, and what else takes as long as some. The last blocks may be smaller.
double estimate(const Work &work) {
  const Block &block = work.product.block;
  const double rows = mean(work.spec.rows, block.rows), columns = mean(work.spec.columns, block.columns);
  const double perStep = rows * columns + kPackCost * (rows + columns);
  // Accumulators leave the registers and come back once a step, which costs about 8 multiply-adds.
  const double accumulators = 8 * rows * columns / static_cast<double>(work.step());
  return work.rounds * static_cast<double>(work.spec.depth) * (perStep + accumulators);
}

/// Registers hold the accumulators, shared memory the stages of the operands.
void addGpuRules(CostModel &model, const Rules &rules, const Scheme &scheme, const DeviceInfo &device) {
  const int64_t shared = device.sharedBytes;
  rules.prune(model, "the accumulators would take all of a multiprocessor's registers",
              [scheme](const Work &work) {
                const Product &p = work.product;
                if (!hasRoles(p)) return work.area() > 128 * 256;
                const int64_t most = allowsLargeTiles(scheme, work.spec.kind) ? 192 : 128;
                return accumulatorsOf(p.block, p.roles) > most;
              });
  rules.prune(model, "two warpgroups cannot halve the tile", [](const Work &work) {
    const Product &p = work.product;
    return p.roles == Roles::cooperative && p.block.rows % 128 != 0 && p.block.columns % 128 != 0;
  });
  rules.prune(model, "sums of rows would go from one warpgroup to the other", [](const Work &work) {
    const Product &p = work.product;
    return work.spec.kind == ProductKind::forward && p.roles == Roles::cooperative && p.block.rows % 128 != 0;
  });
  rules.prune(model, "two warpgroups with so small a tile wait for operands", [](const Work &work) {
    return work.product.roles == Roles::cooperative && work.area() < 128 * 192;
  });
  rules.prune(model, "the stages exceed a program's shared memory", [=](const Work &work) {
    return hasRoles(work.product) && sharedBytesOf(scheme, work.spec.kind, work.product) > shared;
  });
  rules.prune(model, "one more stage would fit, and fewer than four do not hide the copies",
              [=](const Work &work) {
                Product more = work.product;
                ++more.stages;
                return hasRoles(work.product) && more.stages <= 4 &&
                       sharedBytesOf(scheme, work.spec.kind, more) <= shared;
              });
  model.setEstimate([=](const Configuration &c) {
    const StatusOr<Config> config = configOf(c, scheme, device);
    return config.ok() ? estimateCall(scheme, *config, device).seconds() : 0;
  });
}

} // namespace

CostModel costModel(const Request &request, const Config &heuristic, const DeviceInfo &device) {
  CostModel model;
  model.prune("a single chunk is the variant whole, several are chunked", [request](const Configuration &c) {
    const int64_t chunk = c.integer("chunk_rows").value_or(0);
    return request.wantsGradients() && (chunk >= request.rows) != (c.text("variant") == "whole");
  });
  const int64_t quarter = device.memoryBytes / 4;
  model.prune("the workspace takes more than a quarter of the device's memory",
              [request, device, quarter](const Configuration &c) {
                const StatusOr<Config> config = configOf(c, request, device);
                return config.ok() && workspaceBytes(schemeFor(request, config->variant), *config) > quarter;
              });

  const Scheme scheme = tunedScheme(request);
  const Rules rules(scheme, heuristic, device);
  const double cache = static_cast<double>(device.cacheBytes);
  rules.prune(model, "a program's accumulators and panels exceed the second-level cache",
              [=](const Work &work) { return cache > 0 && scratchBytes(work, request.element) > cache; });
  rules.prune(model, "workers idle, or compute what lies outside of the matrix, for a third of the time",
              [=](const Work &work) { return excess(work, device) > 1.5 && work.programs() > 1; });
  if (device.sharedBytes > 0) {
    addGpuRules(model, rules, scheme, device);
    return model;
  }
  rules.prune(model, "filling the panels costs more than a quarter of the multiply-adds",
              [](const Work &work) {
                const Block &block = work.product.block;
                return work.programs() > 1 &&
                       kPackCost * static_cast<double>(block.rows + block.columns) > 0.25 * work.area();
              });
  constexpr double kTooMuch = 1.06; // of 60 that were tried, the best had at most 1.05
  rules.prune(model, "it is expected to take longer than the untuned one by more than expectations err",
              [=](const Work &work) { return estimate(work) > kTooMuch * estimate(rules.untuned(work)); });
  model.setEstimate([=](const Configuration &c) {
    double sum = 0;
    for (const Work &work : rules.worksOf(c))
      sum += estimate(work);
    return sum;
  });
  return model;
}

} // namespace tilewright::lce

#include "kernels/lce/plan.h"

#include <algorithm>
#include <limits>

namespace tilewright::lce {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t roundUp(int64_t a, int64_t multiple) { return ceilDiv(a, multiple) * multiple; }

// Accumulators and packed panels of a block of this size stay in a second-level cache of 1 MiB.
constexpr int64_t kMaxRows = 192, kMaxColumns = 256;
// Moving one number into a packed panel costs as much as this many multiply-adds.
constexpr double kPackCost = 10;

// Larger chunks cost less, up to the whole: every chunk ends in a wave that does not fill the GPU, and adds
// to dW once more. This share of a GPU's memory buys most of it.
constexpr int64_t kMemoryShare = 32;

int64_t chunkBytes(const DeviceInfo &device) {
  return device.sharedBytes > 0 ? std::max(16 * kChunkBytes, device.memoryBytes / kMemoryShare) : kChunkBytes;
}

// Small chunks are whole blocks of a CPU, large ones whole tiles of a GPU; a CPU's blocks divide them well
// enough.
constexpr int64_t kTileRows = 128, kLargeChunk = 12 * kTileRows;
static_assert(kLargeChunk % kMaxRows == 0);

int64_t chunkBucket(int64_t rows) {
  for (int64_t bucket : {8, 16, 32, 64, 128})
    if (rows <= bucket) return bucket;
  return roundUp(rows, rows <= kLargeChunk ? kMaxRows : kTileRows);
}

int64_t balanced(int64_t rows, int64_t chunk) {
  return chunkBucket(ceilDiv(std::max<int64_t>(rows, 1), ceilDiv(std::max<int64_t>(rows, 1), chunk)));
}

namespace {

int64_t nextSmaller(int64_t chunk) {
  if (chunk > kLargeChunk) return chunk - kTileRows;
  if (chunk > kMaxRows) return chunk - kMaxRows;
  return chunk == kMaxRows ? 128 : chunk / 2;
}

/// The block for which the busiest of `units` workers is done first.
Block chooseBlock(int64_t rows, int64_t columns, int64_t fixedColumns, int units) {
  Block best;
  double bestCost = std::numeric_limits<double>::infinity();
  for (int64_t c = kMaxColumns; c >= kColumnStep; c -= kColumnStep)
    for (int64_t r = kMaxRows; r >= kRowStep; r -= kRowStep) {
      if (fixedColumns && c != fixedColumns) continue;
      const int64_t programs = ceilDiv(rows, r) * ceilDiv(columns, c);
      const double cost = ceilDiv(programs, units) * (double(r) * c + kPackCost * (r + c));
      if (cost < bestCost) best = {r, c}, bestCost = cost;
    }
  return best;
}

/// A block's shape decides how work is shared, never a result's bits: each element of a product is summed in
/// the same order in every block. Only the columns of the forward block do decide bits (they are S's partial
/// sums), so those depend on V alone.
void chooseBlocks(const Problem &problem, const DeviceInfo &device, Config &config) {
  if (device.sharedBytes > 0) return chooseGpuProducts(problem, device, config);
  const int units = device.units;
  const int64_t forwardColumns = std::min(kMaxColumns, roundUp(problem.classes, kColumnStep));
  config.forward.block = chooseBlock(config.chunkRows, problem.classes, forwardColumns, units);
  config.dHidden.block = chooseBlock(config.chunkRows, problem.hidden, 0, units);
  config.dWeight.block = chooseBlock(problem.classes, problem.hidden, 0, units);
}

Config configFor(const Problem &problem, Variant variant, int64_t chunkRows, const DeviceInfo &device,
                 bool halves = false) {
  Config config;
  config.variant = variant;
  config.chunkRows = chunkRows;
  config.halves = halves;
  chooseBlocks(problem, device, config);
  return config;
}

} // namespace

ProductShape shapeOf(const Problem &problem, ProductKind kind, int64_t chunk) {
  if (kind == ProductKind::forward) return {chunk, problem.classes, problem.hidden};
  if (kind == ProductKind::dHidden) return {chunk, problem.hidden, problem.classes};
  return {problem.classes, problem.hidden, chunk};
}

int64_t largestChunk(const Problem &problem, Variant variant, int64_t bytes) {
  const int64_t whole = chunkBucket(std::max<int64_t>(problem.rows, 1));
  if (variant == Variant::whole) return whole;
  const int64_t bytesPerRow =
      variant == Variant::lossOnly
          ? problem.hidden * elementBytes(problem.element) + 8 * ceilDiv(problem.classes, kMaxColumns)
          : problem.classes * elementBytes(problem.exponentials());
  int64_t chunk = whole;
  while (chunk > kMaxRows && chunk * bytesPerRow > bytes)
    chunk = nextSmaller(chunk);
  return balanced(problem.rows, chunk);
}

std::string Product::str() const {
  std::string text = block.str() + "/" + std::to_string(contractionStep);
  if (hasRoles(*this))
    text += std::string(" ") + warpRolesName(roles) + ", " + std::to_string(stages) + " stages";
  if (rasterRows) text += (hasRoles(*this) ? ", raster " : " raster ") + std::to_string(rasterRows);
  if (hasRoles(*this)) text += ", cluster " + std::to_string(clusterCtas);
  return text;
}

std::string Problem::str() const {
  std::string text = std::to_string(rows) + "x" + std::to_string(hidden) + "x" + std::to_string(classes) +
                     " " + typeName() + ", labels " + elementName(label) + ", " + reductionName(reduction);
  if (dHidden) text += std::string(", dx ") + elementName(*dHidden);
  if (dWeight) text += std::string(", dw ") + elementName(*dWeight);
  if (dBias) text += std::string(", db ") + elementName(*dBias);
  return text + terms.logitStr() + terms.rowStr() + outputs.str() + (accumulate ? ",accumulate" : "");
}

int64_t Config::tailRows() const { return roundUp(chunkRows - tail.begin, dHidden.block.rows); }

int64_t Config::chunks(const Problem &problem) const {
  return std::max<int64_t>(1, ceilDiv(problem.rows, chunkRows));
}

std::string Config::str() const {
  std::string text =
      "chunk " + std::to_string(chunkRows) + (halves ? ", dw in halves" : "") + ", forward " + forward.str();
  if (variant == Variant::recompute) text = "slice " + std::to_string(sliceClasses) + ", " + text;
  if (variant == Variant::lossOnly) return text;
  text += ", dx " + dHidden.str();
  if (hasTail())
    text += ", from row " + std::to_string(tail.begin) + " in " + std::to_string(tail.parts) + " parts";
  text += ", dw " + dWeight.str();
  return text;
}

int64_t Config::slices(const Problem &problem) const {
  return variant == Variant::recompute ? ceilDiv(problem.classes, sliceClasses) : 1;
}

int64_t Config::weightColumns(const Problem &problem) const {
  constexpr int64_t kMostBytes = int64_t(128) << 20, kUnit = 256; // whole tiles of any shape, or nearly
  if (slices(problem) > 1) return problem.hidden;
  const int64_t columnBytes = std::max<int64_t>(1, std::min(chunkRows, problem.rows)) * 4;
  const int64_t parts = ceilDiv(problem.hidden * columnBytes, kMostBytes);
  return std::min(problem.hidden, roundUp(ceilDiv(problem.hidden, parts), kUnit));
}

Problem asVariant(Problem problem, Variant variant) {
  problem.recompute = variant == Variant::recompute;
  return problem;
}

Completion Problem::completion() const {
  if (!wantsGradients()) return Completion::none;
  if (recompute || exponentials() == ElementType::f16) return Completion::again;
  // Where logits of no weight have a share in the gradient, E no longer tells what they were.
  if (terms.labelSmoothing && terms.softcap) return Completion::again;
  return terms.gradEntropy ? Completion::inPlace : Completion::none;
}

PerRowSum<bool> Problem::rowSums() const {
  PerRowSum<bool> wanted = {};
  const auto want = [&](RowSum sum, bool is) { wanted[static_cast<int>(sum)] = is; };
  const bool gradients = wantsGradients(), products = gradients && completion() == Completion::none;
  want(RowSum::stored, gradients && completion() != Completion::again);
  want(RowSum::exact, products && terms.hasClassRates());
  want(RowSum::moments, outputs.entropy || (gradients && (terms.gradEntropy || terms.margin)));
  want(RowSum::secondMoments, gradients && terms.gradEntropy && terms.margin);
  want(RowSum::weighedLogits, terms.labelSmoothing);
  want(RowSum::squares, outputs.monitored);
  return wanted;
}

namespace {

/// A single chunk needs no buffer to add gradients up in: it may take hardly more memory than the `bytes` of
/// several whose size no limit decides.
std::optional<Config> inOneChunk(const Problem &problem, const Config &several, int64_t bytes,
                                 int64_t workspaceLimit, const DeviceInfo &device) {
  const Config config = configFor(problem, several.variant, chunkBucket(problem.rows), device);
  const int64_t needed = layOut(problem, config, nullptr).bytes;
  const bool fits = workspaceLimit == 0 || needed <= workspaceLimit;
  return fits && needed <= bytes + bytes / 8 ? std::optional(config) : std::nullopt;
}

Status tooSmall(int64_t limit, int64_t smallest, const Problem &problem, Variant variant) {
  return userError("a workspace limit of " + std::to_string(limit) + " bytes is too small: variant " +
                   variantName(variant) + " needs at least " + std::to_string(smallest) + " bytes for " +
                   problem.str() + "; raise the limit" +
                   (variant == Variant::whole ? " or use the variant chunked" : ""));
}

/// All rows, and slices of the classes that are worth their memory, or small ones.
Config slicedConfig(const Problem &problem, bool smallest, const DeviceInfo &device) {
  const int64_t rows = std::max<int64_t>(problem.rows, 1);
  Config config = configFor(problem, Variant::recompute, chunkBucket(rows), device);
  const int64_t unit = std::max(config.forward.block.columns, config.dWeight.block.rows);
  const int64_t bytes = rows * unit * static_cast<int64_t>(elementBytes(problem.exponentials()));
  const int64_t units = ceilDiv(problem.classes, unit);
  const int64_t most = smallest ? 1 : std::clamp<int64_t>(chunkBytes(device) / bytes, 1, units);
  config.sliceClasses = ceilDiv(units, ceilDiv(units, most)) * unit; // all alike
  return config;
}

/// The largest such slices that fit; where none do, what the smallest ones need.
StatusOr<Config> planRecompute(const Problem &asked, int64_t workspaceLimit, const DeviceInfo &device,
                               int64_t &needed) {
  const Problem problem = asVariant(asked, Variant::recompute);
  const Config least = slicedConfig(problem, true, device);
  for (Config config = slicedConfig(problem, false, device);;
       config.sliceClasses = roundUp(config.sliceClasses / 2, least.sliceClasses)) {
    needed = layOut(problem, config, nullptr).bytes;
    if (workspaceLimit == 0 || needed <= workspaceLimit) return config;
    if (config.sliceClasses == least.sliceClasses)
      return tooSmall(workspaceLimit, needed, problem, Variant::recompute);
  }
}

int64_t exponentialBytes(const Problem &problem, int64_t chunkRows) {
  if (!problem.wantsGradients()) return 0;
  const ElementType type = problem.exponentials();
  return std::min(chunkRows, problem.rows) * paddedStride(problem.classes, type) * elementBytes(type);
}

/// The largest chunks that fit; where none do, `smallest` is what the smallest need.
std::optional<Config> inChunks(const Problem &problem, Variant variant, int64_t workspaceLimit,
                               const DeviceInfo &device, bool halves, int64_t &smallest) {
  const int64_t largest = largestChunk(problem, variant, chunkBytes(device));
  for (int64_t chunk = largest; chunk >= kRowStep; chunk = nextSmaller(chunk)) {
    const int64_t rows = balanced(problem.rows, chunk);
    // Where E alone is too large, nothing else has to be chosen; but for the ends, which other rules ask for.
    const bool isEnd = chunk == largest || nextSmaller(chunk) < kRowStep;
    if (!isEnd && workspaceLimit > 0 && exponentialBytes(problem, rows) > workspaceLimit) continue;
    const Config config = configFor(problem, variant, rows, device, halves);
    const int64_t bytes = layOut(problem, config, nullptr).bytes;
    if (chunk == largest)
      if (const auto single = inOneChunk(problem, config, bytes, workspaceLimit, device)) return *single;
    if (workspaceLimit == 0 || bytes <= workspaceLimit) return config;
    smallest = std::min(smallest, bytes);
    if (variant == Variant::whole) break;
  }
  return std::nullopt;
}

// Adding a chunk's part to dW takes an H200 as long as some 400 rows of the product where it is fp32, and
// 1200 where it is halves: those are worth three times fewer chunks. From as many rows on they cost less than
// a fourth product of all rows.
constexpr int64_t kHalvesCost = 3, kHalvesRows = 1280;

} // namespace

StatusOr<Config> plan(const Problem &problem, Variant variant, int64_t workspaceLimit,
                      const DeviceInfo &device) {
  int64_t needed = 0;
  if (variant == Variant::recompute && problem.wantsGradients())
    return planRecompute(problem, workspaceLimit, device, needed);
  const bool isFree = variant == Variant::automatic;
  if (!problem.wantsGradients())
    variant = Variant::lossOnly;
  else if (isFree)
    variant = Variant::chunked;

  int64_t smallest = std::numeric_limits<int64_t>::max();
  const std::optional<Config> wide = inChunks(problem, variant, workspaceLimit, device, false, smallest);
  std::optional<Config> halves;
  const bool addsUp = problem.dWeight == ElementType::bf16 && !problem.terms.margin;
  if (workspaceLimit > 0 && addsUp && !(wide && wide->chunks(problem) == 1))
    halves = inChunks(problem, variant, workspaceLimit, device, true, smallest);
  if (halves && halves->chunkRows >= (wide ? kHalvesCost * wide->chunkRows : kHalvesRows)) return *halves;
  if (wide) return *wide;
  if (isFree && problem.wantsGradients()) {
    StatusOr<Config> config = planRecompute(problem, workspaceLimit, device, needed);
    if (config.ok() || (!halves && needed < smallest)) return config;
  }
  if (halves) return *halves;
  return tooSmall(workspaceLimit, smallest, problem, variant);
}

} // namespace tilewright::lce

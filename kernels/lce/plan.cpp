#include "kernels/lce/plan.h"

#include <algorithm>
#include <limits>
#include <utility>

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
Product chooseProduct(const Problem &problem, ProductKind kind, const DeviceInfo &device,
                      const Config &config) {
  if (device.sharedBytes > 0) return chooseGpuProduct(problem, kind, device, config);
  const ProductShape shape = shapeOf(problem, kind, config);
  const bool isForward = kind == ProductKind::forward;
  const int64_t columns = isForward ? std::min(kMaxColumns, roundUp(problem.classes, kColumnStep)) : 0;
  return {chooseBlock(shape.rows, shape.columns, columns, device.units)};
}

void chooseProducts(const Problem &problem, std::initializer_list<ProductKind> kinds,
                    const DeviceInfo &device, Config &config) {
  for (const ProductKind kind : kinds)
    config[kind] = chooseProduct(problem, kind, device, config);
}

Config configFor(const Problem &problem, Variant variant, int64_t chunkRows, const DeviceInfo &device,
                 bool inPlace = false) {
  Config config;
  config.variant = variant;
  config.chunkRows = chunkRows;
  config.inPlace = inPlace;
  chooseProducts(problem, {ProductKind::forward, ProductKind::dHidden}, device, config);
  if (problem.hasSecondPass()) { // in the smallest slices
    config.sliceClasses = config.forward.block.columns;
    chooseProducts(problem, {ProductKind::again}, device, config);
  }
  chooseProducts(problem, {ProductKind::dWeight}, device, config);
  chooseTail(problem, device, config);
  return config;
}

} // namespace

ProductShape shapeOf(const Problem &problem, ProductKind kind, const Config &config, int64_t slice) {
  const int64_t chunk = config.chunkRows, hidden = problem.hidden, classes = problem.classes;
  if (kind == ProductKind::forward) return {chunk, classes, hidden};
  if (kind == ProductKind::dHidden) return {chunk, hidden, classes};
  if (!problem.hasSecondPass()) return {classes, config.inPlace ? ceilDiv(hidden, 2) : hidden, chunk};
  const int64_t rows = chunkBucket(std::max<int64_t>(problem.rows, 1));
  if (kind == ProductKind::again) return {rows, std::min(slice, classes), hidden};
  return {std::min(slice, classes), config.weightColumns(problem, slice), rows};
}

ProductShape shapeOf(const Problem &problem, ProductKind kind, const Config &config) {
  return shapeOf(problem, kind, config, config.widestSlice());
}

int64_t largestChunk(const Problem &problem, Variant variant, int64_t bytes) {
  const int64_t whole = chunkBucket(std::max<int64_t>(problem.rows, 1));
  if (variant == Variant::whole) return whole;
  const int64_t bytesPerRow =
      !problem.keepsExponentials()
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
  std::string text = "chunk " + std::to_string(chunkRows) + (inPlace ? ", dw adds up in place" : "") +
                     ", forward " + forward.str();
  if (variant == Variant::lossOnly) return text;
  text += ", dx " + dHidden.str();
  if (hasTail())
    text += ", from row " + std::to_string(tail.begin) + " in " + std::to_string(tail.parts) + " parts";
  if (sliceClasses) text += ", slice " + std::to_string(sliceClasses);
  if (lentClasses) text += ", in dw's memory " + std::to_string(lentClasses);
  if (keptClasses) text += ", kept " + std::to_string(keptClasses);
  if (sliceClasses) text += ", again " + again.str();
  text += ", dw " + dWeight.str();
  return text;
}

int64_t Config::lentSlices(const Problem &problem) const {
  if (!lentClasses || !problem.lentBytes) return 0; // db alone has no memory to lend
  const int64_t room = lentSliceBegin(problem, *this) / problem.classBytes(); // negative where there is none
  return std::max<int64_t>(0, std::min(room, problem.classes) - keptClasses) / lentClasses;
}

std::vector<Slice> Config::slices(const Problem &problem) const {
  std::vector<Slice> slices;
  int64_t first = 0;
  const auto add = [&](int64_t most, int64_t end, Slice::Place place) {
    for (int64_t count = 0; first < end; first += count)
      slices.push_back({first, count = std::min(most, end - first), place});
  };
  if (keptClasses) add(keptSlice(problem, *this), keptClasses, Slice::Place::kept);
  add(lentClasses, first + lentSlices(problem) * lentClasses, Slice::Place::lent);
  add(sliceClasses, problem.classes, Slice::Place::workspace);
  return slices;
}

int64_t Config::weightRows(const Problem &problem) const {
  return problem.hasSecondPass() ? problem.rows : std::min(chunkRows, problem.rows);
}

int64_t Config::columnsInPlace(const Problem &problem) const {
  if (!inPlace || weightParts(problem) == 1) return 0;
  constexpr int64_t kWide = 128,
                    kAligned = 8; // columns whose rows begin at multiples of 16 bytes in any type
  const int64_t room = problem.hidden / 2, unit = room < kWide ? kAligned : kWide;
  return room / unit * unit;
}

int64_t Config::columnsInBuffer(const Problem &problem) const {
  if (!problem.dWeight) return 0;
  // Normalised gradients are made of whole rows, in fp32.
  const bool isWide = *problem.dWeight == ElementType::f32;
  const bool holds =
      problem.terms.margin ? isWide && !problem.accumulate : isWide || weightParts(problem) == 1;
  return holds ? 0 : problem.hidden - columnsInPlace(problem);
}

int64_t Config::weightColumns(const Problem &problem, int64_t slice) const {
  constexpr int64_t mib = int64_t(1) << 20, kUnit = 256; // whole tiles of any shape, or nearly
  const bool ofSlices = problem.hasSecondPass();         // of which u has one row for each class
  const int64_t rows = weightRows(problem), classes = std::min(slice, problem.classes);
  const int64_t sliceBytes = rows * classes * static_cast<int64_t>(elementBytes(problem.exponentials()));
  // What dW lends costs nothing, and launches of more columns leave fewer workers idle.
  const int64_t share = slice > sliceClasses ? 2 : 4;
  const int64_t most = ofSlices ? std::clamp(sliceBytes / share, 32 * mib, 128 * mib) : 128 * mib;
  const int64_t columnBytes = std::max<int64_t>(1, ofSlices ? classes : rows) * 4;
  const int64_t columns = problem.hidden - columnsInPlace(problem);
  const int64_t parts = ceilDiv(columns * columnBytes, most);
  return std::min(columns, roundUp(ceilDiv(columns, parts), kUnit));
}

Problem asVariant(Problem problem, Variant variant) {
  problem.recompute = variant == Variant::recompute;
  return problem;
}

/// A pass over E takes a few percent of what a product does.
bool Problem::ofBlocks() const {
  const bool isFactorOfRow = !terms.labelSmoothing && !terms.gradEntropy && !terms.hasClassRates();
  return keepsExponentials() && isFactorOfRow && !outputs.entropy && !outputs.best && !outputs.monitored;
}

Completion Problem::completion() const {
  if (!wantsGradients()) return Completion::none;
  if (exponentials() == ElementType::f16) return ofBlocks() ? Completion::rescale : Completion::again;
  // Where logits of no weight have a share in the gradient, E no longer tells what they were.
  if (terms.labelSmoothing && terms.softcap) return Completion::again;
  return terms.gradEntropy ? Completion::inPlace : Completion::none;
}

PerRowSum<bool> Problem::rowSums() const {
  PerRowSum<bool> wanted = {};
  const auto want = [&](RowSum sum, bool is) { wanted[static_cast<int>(sum)] = is; };
  const bool gradients = wantsGradients(), products = gradients && completion() == Completion::none;
  want(RowSum::stored, keepsExponentials() && (products || completion() == Completion::inPlace));
  want(RowSum::exact, keepsExponentials() && products && terms.hasClassRates());
  want(RowSum::moments, outputs.entropy || (gradients && (terms.gradEntropy || terms.margin)));
  want(RowSum::secondMoments, gradients && terms.gradEntropy && terms.margin);
  want(RowSum::weighedLogits, terms.labelSmoothing);
  want(RowSum::squares, outputs.monitored);
  return wanted;
}

bool Problem::wantsTotalsAlone() const {
  return !wantsGradients() && !outputs.best && rowSums() == PerRowSum<bool>{};
}

namespace {

/// A single chunk needs no buffer to add gradients up in: it may take hardly more memory than several whose
/// size no limit decides.
std::optional<Config> inOneChunk(const Problem &problem, const Config &several, int64_t workspaceLimit,
                                 const DeviceInfo &device) {
  const int64_t bytes = layOut(problem, several, nullptr).bytes;
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

/// E, and where dW adds up.
int64_t leastBytes(const Problem &problem, int64_t chunkRows, bool inPlace) {
  Config config;
  config.chunkRows = chunkRows;
  config.inPlace = inPlace;
  const int64_t sums = 4 * problem.classes * config.columnsInBuffer(problem);
  if (!problem.keepsExponentials() || isLent(problem, chunkRows)) return sums;
  return sums + exponentialBytes(problem, chunkRows);
}

/// The same chunks with a tail of dX whose parts find room where the chunk's rows of X, and u, were.
Config withSmallTail(const Problem &problem, Config config, const DeviceInfo &device) {
  const int64_t rows = std::min(config.chunkRows, problem.rows);
  config.tailBytes = problem.terms.margin ? 0 : rows * problem.hidden * elementBytes(problem.element);
  if (problem.dWeight && !problem.hasSecondPass())
    config.tailBytes += 4 * rows * config.weightColumns(problem);
  chooseProducts(problem, {ProductKind::dHidden}, device, config);
  chooseTail(problem, device, config);
  return config;
}

/// With the tail that takes the least time, or else with one that finds room.
std::optional<Config> fitting(const Problem &problem, const Config &config, int64_t workspaceLimit,
                              const DeviceInfo &device, int64_t &smallest) {
  const auto fits = [&](const Config &c) {
    const int64_t bytes = layOut(problem, c, nullptr).bytes;
    smallest = std::min(smallest, bytes);
    return workspaceLimit == 0 || bytes <= workspaceLimit;
  };
  if (fits(config)) return config;
  if (!config.hasTail()) return std::nullopt;
  const Config lean = withSmallTail(problem, config, device);
  return fits(lean) ? std::optional(lean) : std::nullopt;
}

/// The largest chunks that fit; where none do, `smallest` is what the smallest need. On a GPU whose memory is
/// limited, those of about as many rows that take the least time: tiles leave multiprocessors idle at the end
/// of some more than of others.
std::optional<Config> inChunks(const Problem &problem, Variant variant, int64_t workspaceLimit,
                               const DeviceInfo &device, bool inPlace, int64_t &smallest) {
  constexpr double kAbout = 0.75;
  const int64_t largest = largestChunk(problem, variant, chunkBytes(device));
  std::optional<Config> first, best;
  double least = std::numeric_limits<double>::infinity();
  int64_t before = 0;
  for (int64_t chunk = largest; chunk >= kRowStep; chunk = nextSmaller(chunk)) {
    const int64_t rows = balanced(problem.rows, chunk);
    // Where these alone are too large, nothing else has to be chosen; but for the ends, which other rules ask
    // for.
    const bool isEnd = chunk == largest || nextSmaller(chunk) < kRowStep;
    if (!isEnd && workspaceLimit > 0 && leastBytes(problem, rows, inPlace) > workspaceLimit) continue;
    if (first && static_cast<double>(rows) < kAbout * static_cast<double>(first->chunkRows)) break;
    if (std::exchange(before, rows) == rows) continue;
    const Config config = configFor(problem, variant, rows, device, inPlace);
    if (chunk == largest)
      if (const auto single = inOneChunk(problem, config, workspaceLimit, device)) return *single;
    const auto found = fitting(problem, config, workspaceLimit, device, smallest);
    if (found && (workspaceLimit == 0 || device.sharedBytes == 0)) return found;
    if (const double cost = found ? chunksCost(problem, *found, device) : least; cost < least)
      best = found, least = cost;
    if (found && !first) first = found;
    if (variant == Variant::whole) break;
  }
  return best;
}

// Products of so many classes keep any device busy, and u has a row for each.
constexpr int64_t kMostSliced = 16 << 10;

/// Slices of the classes for a second pass after `chunks`, all about alike: of those that are worth their
/// memory and fit, the ones that take the least time. Those of less than half as many classes as others leave
/// no fewer workers idle.
Config inSlices(const Problem &problem, const Config &chunks, int64_t workspaceLimit,
                const DeviceInfo &device) {
  const int64_t unit = chunks.sliceClasses, units = ceilDiv(problem.classes, unit);
  const auto alike = [&](int64_t most) { return ceilDiv(units, ceilDiv(units, most)); };
  const int64_t unitBytes =
      std::max<int64_t>(problem.rows, 1) * unit * static_cast<int64_t>(elementBytes(problem.exponentials()));
  Config best = chunks;
  double least = std::numeric_limits<double>::infinity();
  int64_t largest = 0; // that fits
  const int64_t most = std::min({chunkBytes(device) / unitBytes, kMostSliced / unit, units});
  for (int64_t size = alike(std::max<int64_t>(most, 1)); size > 0 && 2 * size > largest;
       size = size > 1 ? alike(size - 1) : 0) {
    Config config = chunks;
    config.sliceClasses = size * unit;
    if (workspaceLimit > 0 && layOut(problem, config, nullptr).bytes > workspaceLimit) continue;
    chooseProducts(problem, {ProductKind::again, ProductKind::dWeight}, device, config);
    largest = std::max(largest, size);
    const double cost = secondPassCost(problem, config, device);
    if (cost < least) best = config, least = cost;
  }
  return best;
}

/// Larger slices beside those in the workspace, in what of dW's memory lies behind their rows, where that
/// takes less time.
Config withLentSlices(const Problem &problem, const Config &narrow, const DeviceInfo &device) {
  const int64_t unit = narrow.forward.block.columns;
  double least = secondPassCost(problem, narrow, device);
  Config best = narrow, config = narrow;
  for (int64_t size = narrow.sliceClasses / unit + 1; size * unit <= kMostSliced; ++size) {
    config.lentClasses = size * unit;
    if (config.lentSlices(problem) == 0) break; // nor would larger ones find room
    if (const double cost = secondPassCost(problem, config, device); cost < least)
      best = config, least = cost;
  }
  if (best.lentClasses) chooseProducts(problem, {ProductKind::again, ProductKind::dWeight}, device, best);
  return best;
}

/// E of as many classes as dW's memory holds while it is not written, but for what were less than a quarter
/// of a slice: all rows' logits of these are not computed again.
Config withKeptSlices(const Problem &problem, Config config) {
  if (!problem.keepsExponentials()) return config;
  const int64_t unit = config.forward.block.columns, slice = keptSlice(problem, config);
  const int64_t ofChunk = isLent(problem, config.chunkRows) ? exponentialBytes(problem, config.chunkRows) : 0;
  Config kept = config;
  do { // behind a chunk's E, and behind dW of these when it is made
    config.keptClasses = kept.keptClasses;
    kept.keptClasses += unit;
  } while (std::max(ofChunk, kept.keptClasses * problem.classBytes()) <= keptBegin(problem, kept));
  if (const int64_t rest = config.keptClasses % slice; 4 * rest < slice) config.keptClasses -= rest;
  return config;
}

/// The largest chunks that leave room for a second pass, and what that takes of all memory.
StatusOr<Config> planRecompute(const Problem &asked, int64_t workspaceLimit, const DeviceInfo &device,
                               int64_t &needed) {
  const Problem problem = asVariant(asked, Variant::recompute);
  needed = std::numeric_limits<int64_t>::max();
  const auto chunks = inChunks(problem, Variant::recompute, workspaceLimit, device, false, needed);
  if (!chunks) return tooSmall(workspaceLimit, needed, problem, Variant::recompute);
  if (!problem.hasSecondPass()) return *chunks;
  const Config slices = withLentSlices(problem, inSlices(problem, *chunks, workspaceLimit, device), device);
  return withKeptSlices(problem, slices);
}

// Adding a chunk's part to dW takes an H200 as long as some 400 rows of the product. From as many rows on
// chunks cost less than a fourth product of all rows.
constexpr int64_t kWorthwhileRows = 640;

/// Whether dW's own memory can hold fp32 sums of some of its columns.
bool canAddInPlace(const Problem &problem) {
  return problem.dWeight && elementBytes(*problem.dWeight) == 2 && problem.aligned && !problem.terms.margin;
}

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
  std::optional<Config> inPlace;
  if (workspaceLimit > 0 && canAddInPlace(problem) && !(wide && wide->chunks(problem) == 1))
    inPlace = inChunks(problem, variant, workspaceLimit, device, true, smallest);
  // Rounding the sums takes about as long as adding one chunk's part.
  const bool isWorthwhile = inPlace && (wide ? inPlace->chunks(problem) + 1 < wide->chunks(problem)
                                             : inPlace->chunkRows >= kWorthwhileRows);
  if (isWorthwhile) return *inPlace;
  if (wide) return *wide;
  if (isFree && problem.wantsGradients()) {
    StatusOr<Config> config = planRecompute(problem, workspaceLimit, device, needed);
    if (config.ok() || (!inPlace && needed < smallest)) return config;
  }
  if (inPlace) return *inPlace;
  return tooSmall(workspaceLimit, smallest, problem, variant);
}

} // namespace tilewright::lce

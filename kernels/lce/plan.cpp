#include "kernels/lce/plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/base/byte_text.h"
#include "kernels/lce/estimate.h"
#include "kernels/lce/tensors.h"
#include "kernels/lce/tiling.h"

namespace tilewright::lce {

// Larger chunks cost less, up to the whole: every chunk ends in a wave that does not fill the GPU, and adds
// to dW once more. This share of a GPU's memory buys most of it.
constexpr int64_t kMemoryShare = 32;

int64_t chunkBytes(const DeviceInfo &device) {
  return device.sharedBytes > 0 ? std::max(16 * kChunkBytes, device.memoryBytes / kMemoryShare) : kChunkBytes;
}

void chooseProducts(const Scheme &scheme, std::initializer_list<ProductKind> kinds, const DeviceInfo &device,
                    Config &config) {
  for (const ProductKind kind : kinds)
    config[kind] = chooseProduct(scheme, kind, device, config);
}

namespace {

Config configFor(const Scheme &scheme, Variant variant, int64_t chunkRows, const DeviceInfo &device,
                 bool inPlace = false) {
  Config config;
  config.variant = variant;
  config.chunkRows = chunkRows;
  config.inPlace = inPlace;
  chooseProducts(scheme, {ProductKind::forward, ProductKind::dHidden}, device, config);
  if (scheme.hasSecondPass) { // in the smallest slices
    config.sliceClasses = config.forward.block.columns;
    chooseProducts(scheme, {ProductKind::again}, device, config);
  }
  chooseProducts(scheme, {ProductKind::dWeight}, device, config);
  chooseTail(scheme, device, config);
  return config;
}

} // namespace

int64_t largestChunk(const Scheme &scheme, Variant variant, int64_t bytes) {
  constexpr int64_t kSmallestByBytes = 192, kForwardColumns = 256; // a block of a CPU's forward product
  const ChunkSizes sizes(scheme);
  const int64_t whole = sizes.holding(std::max<int64_t>(scheme.rows, 1));
  if (variant == Variant::whole) return whole;
  const int64_t bytesPerRow = !scheme.keepsExponentials ? scheme.hidden * elementBytes(scheme.element) +
                                                              8 * ceilDiv(scheme.classes, kForwardColumns)
                                                        : scheme.classes * elementBytes(scheme.exponentials);
  int64_t chunk = whole;
  while (chunk > kSmallestByBytes && saturatingProduct(std::min(chunk, scheme.rows), bytesPerRow) > bytes)
    chunk = sizes.below(chunk);
  return sizes.balanced(scheme.rows, chunk);
}

namespace {

/// A single chunk needs no buffer to add gradients up in: it may take a little more memory than several whose
/// size no limit decides.
std::optional<Config> inOneChunk(const Scheme &scheme, const Config &several, int64_t workspaceLimit,
                                 const DeviceInfo &device) {
  const int64_t bytes = workspaceBytes(scheme, several);
  const Config config = configFor(scheme, several.variant, ChunkSizes(scheme).holding(scheme.rows), device);
  const int64_t needed = workspaceBytes(scheme, config);
  const bool fits = workspaceLimit == 0 || needed <= workspaceLimit;
  return fits && needed <= bytes + bytes / 4 ? std::optional(config) : std::nullopt;
}

Status tooSmall(int64_t limit, int64_t smallest, const Scheme &scheme, Variant variant) {
  return userError("a workspace limit of " + exactByteText(limit) + " is too small: variant " +
                   variantName(variant) + " needs at least " + exactByteText(smallest) + " for " +
                   scheme.Request::str() + "; raise the limit" +
                   (variant == Variant::whole ? " or use the variant chunked" : ""));
}

/// E, and where dW adds up.
int64_t leastBytes(const Scheme &scheme, int64_t chunkRows, bool inPlace) {
  Config config;
  config.chunkRows = chunkRows;
  config.inPlace = inPlace;
  const int64_t sums = saturatingProduct(4 * scheme.classes, config.columnsInBuffer(scheme));
  if (!scheme.keepsExponentials || borrowsChunk(scheme, chunkRows)) return sums;
  return saturatingSum(sums, bytesOfE(scheme, std::min(chunkRows, scheme.rows), scheme.classes));
}

/// Bytes that parts of dX find where the chunk's rows of X, and u, were.
int64_t freeTailBytes(const Scheme &scheme, const Config &config) {
  const int64_t rows = std::min(config.chunkRows, scheme.rows);
  const int64_t ofX =
      scheme.terms.margin ? 0 : saturatingProduct(rows, scheme.hidden * elementBytes(scheme.element));
  if (!scheme.dWeight || scheme.hasSecondPass) return ofX;
  return saturatingSum(ofX, saturatingProduct(4 * rows, config.weightColumns(scheme)));
}

/// The same chunks with a tail of dX whose parts take so many bytes.
Config withTail(const Scheme &scheme, Config config, int64_t bytes, const DeviceInfo &device) {
  config.tailBytes = bytes;
  chooseProducts(scheme, {ProductKind::dHidden}, device, config);
  chooseTail(scheme, device, config);
  return config;
}

/// With the tail that takes the least time, or else with one for which the limit leaves room, or with one
/// that needs none.
std::optional<Config> fitting(const Scheme &scheme, const Config &config, int64_t workspaceLimit,
                              const DeviceInfo &device, int64_t &smallest) {
  const auto fits = [&](const Config &c) {
    const int64_t bytes = workspaceBytes(scheme, c);
    smallest = std::min(smallest, bytes);
    return workspaceLimit == 0 || bytes <= workspaceLimit;
  };
  if (fits(config)) return config;
  if (!config.hasTail()) return std::nullopt;
  const Config lean = withTail(scheme, config, freeTailBytes(scheme, config), device);
  if (!fits(lean)) return std::nullopt;
  if (scheme.hasSecondPass) return lean; // which needs what is left for E
  const int64_t left = workspaceLimit - workspaceBytes(scheme, lean);
  const Config wider = withTail(scheme, config, saturatingSum(lean.tailBytes, left), device);
  return fits(wider) ? wider : lean;
}

/// The largest chunks that fit; where none do, `smallest` is what the smallest need. On a GPU whose memory is
/// limited, those of about as many rows that take the least time: tiles leave multiprocessors idle at the end
/// of some more than of others.
std::optional<Config> inChunks(const Scheme &scheme, Variant variant, int64_t workspaceLimit,
                               const DeviceInfo &device, bool inPlace, int64_t &smallest) {
  constexpr double kAbout = 0.75;
  const ChunkSizes sizes(scheme);
  const int64_t largest = largestChunk(scheme, variant, chunkBytes(device));
  std::optional<Config> first, best;
  double least = std::numeric_limits<double>::infinity();
  int64_t before = 0;
  for (int64_t chunk = largest; chunk > 0; chunk = sizes.below(chunk)) {
    const int64_t rows = sizes.balanced(scheme.rows, chunk);
    // Where these alone are too large, nothing else has to be chosen; but for the ends, which other rules ask
    // for.
    const bool isEnd = chunk == largest || sizes.below(chunk) == 0;
    if (!isEnd && workspaceLimit > 0 && leastBytes(scheme, rows, inPlace) > workspaceLimit) continue;
    if (first && static_cast<double>(rows) < kAbout * static_cast<double>(first->chunkRows)) break;
    if (std::exchange(before, rows) == rows) continue;
    const Config config = configFor(scheme, variant, rows, device, inPlace);
    if (chunk == largest)
      if (const auto single = inOneChunk(scheme, config, workspaceLimit, device)) return *single;
    const auto found = fitting(scheme, config, workspaceLimit, device, smallest);
    if (found && (workspaceLimit == 0 || device.sharedBytes == 0)) return found;
    if (const double cost = found ? estimateCall(scheme, *found, device).seconds() : least; cost < least)
      best = found, least = cost;
    if (found && !first) first = found;
    if (variant == Variant::whole) break;
  }
  return best;
}

/// The largest chunks that leave room for a second pass, and what that takes of all memory.
StatusOr<Config> planRecompute(const Request &asked, int64_t workspaceLimit, const DeviceInfo &device,
                               int64_t &needed) {
  const Scheme scheme = schemeFor(asked, Variant::recompute);
  needed = std::numeric_limits<int64_t>::max();
  const auto chunks = inChunks(scheme, Variant::recompute, workspaceLimit, device, false, needed);
  if (!chunks) return tooSmall(workspaceLimit, needed, scheme, Variant::recompute);
  if (!scheme.hasSecondPass) return *chunks;
  return withSlices(scheme, *chunks, workspaceLimit, device);
}

/// Whether fewer chunks are worth adding some columns of dW up in place. Rounding the sums takes about as
/// long as adding one chunk's part; a GPU's tiles may suit the columns apart less than all of them.
bool takesLess(const Scheme &scheme, const Config &inPlace, const Config &wide, const DeviceInfo &device) {
  if (inPlace.chunks(scheme) + 1 >= wide.chunks(scheme)) return false;
  const auto seconds = [&](const Config &config) { return estimateCall(scheme, config, device).seconds(); };
  return device.sharedBytes == 0 || seconds(inPlace) < seconds(wide);
}

// Adding a chunk's part to dW takes an H200 as long as some 400 rows of the product. From as many rows on
// chunks cost less than a fourth product of all rows.
constexpr int64_t kWorthwhileRows = 640;

} // namespace

bool canAddInPlace(const Scheme &scheme) {
  return scheme.dWeight && elementBytes(*scheme.dWeight) == 2 && scheme.aligned && !scheme.terms.margin;
}

StatusOr<Config> plan(const Request &request, Variant variant, int64_t workspaceLimit,
                      const DeviceInfo &device) {
  int64_t needed = 0;
  if (variant == Variant::recompute && request.wantsGradients())
    return planRecompute(request, workspaceLimit, device, needed);
  const bool isFree = variant == Variant::automatic;
  if (!request.wantsGradients())
    variant = Variant::lossOnly;
  else if (isFree)
    variant = Variant::chunked;

  Scheme scheme = schemeFor(request, variant);
  int64_t smallest = std::numeric_limits<int64_t>::max();
  std::optional<Config> wide = inChunks(scheme, variant, workspaceLimit, device, false, smallest);
  if (scheme.transposes && (!wide || wide->chunkRows < std::min(scheme.rows, kWorthwhileRows))) {
    scheme.transposes = false; // what transposed matrices take, larger chunks have
    const auto plain = inChunks(scheme, variant, workspaceLimit, device, false, smallest);
    if (plain && (!wide || plain->chunkRows > wide->chunkRows)) wide = plain;
  }
  std::optional<Config> inPlace;
  if (workspaceLimit > 0 && canAddInPlace(scheme) && !(wide && wide->chunks(scheme) == 1))
    inPlace = inChunks(scheme, variant, workspaceLimit, device, true, smallest);
  const bool isWorthwhile =
      inPlace && (wide ? takesLess(scheme, *inPlace, *wide, device) : inPlace->chunkRows >= kWorthwhileRows);
  if (isWorthwhile) return *inPlace;
  if (wide) return *wide;
  if (isFree && request.wantsGradients() && !request.isShard()) {
    StatusOr<Config> config = planRecompute(request, workspaceLimit, device, needed);
    if (config.ok() || (!inPlace && needed < smallest)) return config;
  }
  if (inPlace) return *inPlace;
  return tooSmall(workspaceLimit, smallest, scheme, variant);
}

} // namespace tilewright::lce

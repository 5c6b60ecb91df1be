#include "kernels/lce/config.h"

#include "kernels/lce/tensors.h"

namespace tilewright::lce {
namespace {

// Chunks are whole tiles of a GPU. A CPU's small chunks are whole blocks, which divide large ones well
// enough; of 256 rows, too, which are one block or two.
constexpr int64_t kTileRows = 128, kBlockRows = 192, kTwoTiles = 2 * kTileRows, kLargeChunk = 12 * kTileRows;
static_assert(kLargeChunk % kBlockRows == 0);

} // namespace

int64_t ChunkSizes::holding(int64_t rows) const {
  for (int64_t size : {8, 16, 32, 64, 128})
    if (rows <= size) return size;
  if (rows > kBlockRows && rows <= kTwoTiles) return kTwoTiles;
  return roundUp(rows, ofTiles_ || rows > kLargeChunk ? kTileRows : kBlockRows);
}

int64_t ChunkSizes::below(int64_t chunk) const {
  const int64_t unit = ofTiles_ || chunk > kLargeChunk ? kTileRows : kBlockRows;
  if (chunk == kTwoTiles && !ofTiles_) return kBlockRows;
  if (chunk > unit) return chunk - unit;
  if (chunk == kBlockRows) return kTileRows;
  return chunk > kRowStep ? chunk / 2 : 0;
}

int64_t ChunkSizes::balanced(int64_t rows, int64_t chunk) const {
  rows = std::max<int64_t>(rows, 1);
  return holding(ceilDiv(rows, ceilDiv(rows, chunk)));
}

ProductShape shapeOf(const Scheme &scheme, ProductKind kind, const Config &config, int64_t slice) {
  const int64_t chunk = config.chunkRows, hidden = scheme.hidden, classes = scheme.classes;
  if (kind == ProductKind::forward) return {chunk, classes, hidden};
  if (kind == ProductKind::dHidden) return {chunk, hidden, classes};
  if (!scheme.hasSecondPass) return {classes, config.inPlace ? ceilDiv(hidden, 2) : hidden, chunk};
  const int64_t rows = ChunkSizes(scheme).holding(std::max<int64_t>(scheme.rows, 1));
  if (kind == ProductKind::again) return {rows, std::min(slice, classes), hidden};
  return {std::min(slice, classes), config.weightColumns(scheme, slice), rows};
}

ProductShape shapeOf(const Scheme &scheme, ProductKind kind, const Config &config) {
  return shapeOf(scheme, kind, config, config.widestSlice());
}

std::string Product::str() const {
  std::string text = block.str() + "/" + std::to_string(contractionStep);
  if (hasRoles(*this))
    text += std::string(" ") + warpRolesName(roles) + ", " + std::to_string(stages) + " stages";
  if (rasterRows) text += (hasRoles(*this) ? ", raster " : " raster ") + std::to_string(rasterRows);
  if (hasRoles(*this)) text += ", cluster " + std::to_string(clusterCtas);
  return text;
}

int64_t Config::tailRows() const { return roundUp(chunkRows - tail.begin, dHidden.block.rows); }

int64_t Config::chunks(const Request &request) const {
  return std::max<int64_t>(1, ceilDiv(request.rows, chunkRows));
}

std::string Config::str() const {
  std::string text = "chunk " + std::to_string(chunkRows) + (inPlace ? ", dw adds up in place" : "") +
                     ", forward " + forward.str();
  if (variant == Variant::lossOnly) return text;
  text += ", dx " + dHidden.str();
  if (hasTail())
    text += ", from row " + std::to_string(tail.begin) + " in " + std::to_string(tail.parts) + " parts";
  if (sliceClasses) text += ", slice " + std::to_string(sliceClasses);
  if (borrowedClasses) text += ", in dw's memory " + std::to_string(borrowedClasses);
  if (keptClasses) text += ", kept " + std::to_string(keptClasses);
  if (sliceClasses) text += ", again " + again.str();
  text += ", dw " + dWeight.str();
  return text;
}

int64_t Config::borrowedSlices(const Scheme &scheme) const {
  if (!borrowedClasses || !scheme.borrowedBytes) return 0; // db alone has no memory to borrow
  const int64_t begin = borrowedBegin(scheme, bytesOfSlice(scheme, *this, borrowedClasses));
  const int64_t room = begin / scheme.classBytes(); // negative where there is none
  return std::max<int64_t>(0, std::min(room, scheme.classes) - keptClasses) / borrowedClasses;
}

std::vector<Slice> Config::slices(const Scheme &scheme) const {
  std::vector<Slice> slices;
  int64_t first = 0;
  const auto add = [&](int64_t most, int64_t end, Slice::Where where) {
    for (int64_t count = 0; first < end; first += count)
      slices.push_back({first, count = std::min(most, end - first), where});
  };
  if (keptClasses) add(keptSlice(scheme, *this), keptClasses, Slice::Where::kept);
  add(borrowedClasses, first + borrowedSlices(scheme) * borrowedClasses, Slice::Where::borrowed);
  add(sliceClasses, scheme.classes, Slice::Where::workspace);
  return slices;
}

int64_t Config::weightRows(const Scheme &scheme) const {
  return scheme.hasSecondPass ? scheme.rows : std::min(chunkRows, scheme.rows);
}

int64_t Config::columnsInPlace(const Scheme &scheme) const {
  if (!inPlace || weightParts(scheme) == 1) return 0;
  constexpr int64_t kWide = 128,
                    kAligned = 8; // columns whose rows begin at multiples of 16 bytes in any type
  const int64_t room = scheme.hidden / 2, unit = room < kWide ? kAligned : kWide;
  return room / unit * unit;
}

int64_t Config::columnsInBuffer(const Scheme &scheme) const {
  if (!scheme.dWeight) return 0;
  // Normalised gradients are made of whole rows, in fp32.
  const bool isWide = *scheme.dWeight == ElementType::f32;
  const bool holds = scheme.terms.margin ? isWide && !scheme.accumulate : isWide || weightParts(scheme) == 1;
  return holds ? 0 : scheme.hidden - columnsInPlace(scheme);
}

int64_t Config::weightColumns(const Scheme &scheme, int64_t slice) const {
  constexpr int64_t mib = int64_t(1) << 20, kUnit = 256; // whole tiles of any shape, or nearly
  const bool ofSlices = scheme.hasSecondPass;            // of which u has one row for each class
  const int64_t rows = weightRows(scheme),
                classes = ofSlices ? std::min(slice, scheme.classes) : scheme.classes;
  const int64_t sliceBytes =
      saturatingProduct(saturatingProduct(rows, classes), elementBytes(scheme.exponentials));
  // Borrowed memory costs nothing, and launches of more columns leave fewer workers idle.
  const int64_t share = slice > sliceClasses ? 2 : 4;
  const int64_t most = ofSlices ? std::clamp(sliceBytes / share, 32 * mib, 128 * mib) : 128 * mib;
  const int64_t columnBytes = std::max<int64_t>(1, hasRowsOfClasses(scheme, *this) ? classes : rows) * 4;
  const int64_t columns = scheme.hidden - columnsInPlace(scheme);
  const int64_t parts = ceilDiv(saturatingProduct(columns, columnBytes), most);
  return std::min(columns, roundUp(ceilDiv(columns, parts), kUnit));
}

} // namespace tilewright::lce

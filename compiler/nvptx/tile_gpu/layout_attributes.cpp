#include <vector>

#include "compiler/dialect/tile_ops.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectImplementation.h"

namespace tilewright::layout {

llvm::hash_code hash_value(const AxisMap &map) {
  llvm::hash_code hash = llvm::hash_combine(map.extent, map.run,
                                            llvm::hash_combine_range(map.offsets.begin(), map.offsets.end()));
  for (const ThreadBit &bit : map.bits)
    hash = llvm::hash_combine(hash, bit.bit, bit.stride);
  return hash;
}

} // namespace tilewright::layout

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;

// ---- as text ----

/// The shortest beginning of the offsets that the others repeat, and how far apart.
static std::pair<size_t, int64_t> periodOf(ArrayRef<int64_t> offsets) {
  for (size_t period = 1; period < offsets.size(); ++period) {
    if (offsets.size() % period) continue;
    const int64_t step = offsets[period] - offsets[0];
    bool repeats = true;
    for (size_t i = period; i < offsets.size(); ++i)
      repeats &= offsets[i] - offsets[i - period] == step;
    if (repeats) return {period, step};
  }
  return {offsets.size(), 0};
}

void AxisAttr::print(AsmPrinter &printer) const {
  const AxisMap &map = getMap();
  printer << "<" << map.extent;
  if (getAxisClass()) printer << ", class = " << getAxisClass();
  printer << ", bits = [";
  llvm::interleaveComma(map.bits, printer,
                        [&](const layout::ThreadBit &bit) { printer << bit.bit << " : " << bit.stride; });
  const auto [period, step] = periodOf(map.offsets);
  printer << "], offsets = [";
  llvm::interleaveComma(ArrayRef<int64_t>(map.offsets).take_front(period), printer);
  printer << "]";
  if (period < map.offsets.size()) printer << " x " << map.offsets.size() / period << " by " << step;
  printer << ", run = " << map.run << ">";
}

static ParseResult parseBits(AsmParser &parser, AxisMap &map) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    layout::ThreadBit &bit = map.bits.emplace_back();
    return failure(parser.parseInteger(bit.bit) || parser.parseColon() || parser.parseInteger(bit.stride));
  });
}

static ParseResult parseOffsets(AsmParser &parser, AxisMap &map) {
  constexpr int64_t kMost = 1 << 16; // registers: more than any thread has
  map.offsets.clear();
  auto parseOffset = [&] { return parser.parseInteger(map.offsets.emplace_back()); };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOffset)) return failure();
  if (failed(parser.parseOptionalKeyword("x"))) return success();
  int64_t times = 0, step = 0;
  const SMLoc location = parser.getCurrentLocation();
  if (parser.parseInteger(times) || parser.parseKeyword("by") || parser.parseInteger(step)) return failure();
  const int64_t period = map.offsets.size();
  if (times < 1 || period * times > kMost)
    return parser.emitError(location) << "expected 1 to " << kMost << " offsets";
  for (int64_t i = period; i < period * times; ++i)
    map.offsets.push_back(map.offsets[i - period] + step);
  return success();
}

/// "class = 2, ", or nothing.
static ParseResult parseClass(AsmParser &parser, int64_t &axisClass) {
  if (failed(parser.parseOptionalKeyword("class"))) return success();
  return failure(parser.parseEqual() || parser.parseInteger(axisClass) || parser.parseComma());
}

Attribute AxisAttr::parse(AsmParser &parser, Type) {
  AxisMap map;
  int64_t axisClass = 0;
  const SMLoc location = parser.getCurrentLocation();
  auto parseName = [&](StringRef name) -> ParseResult {
    return failure(parser.parseKeyword(name) || parser.parseEqual());
  };
  if (parser.parseLess() || parser.parseInteger(map.extent) || parser.parseComma() ||
      parseClass(parser, axisClass) || parseName("bits") || parseBits(parser, map) || parser.parseComma() ||
      parseName("offsets") || parseOffsets(parser, map) || parser.parseComma() || parseName("run") ||
      parser.parseInteger(map.run) || parser.parseGreater())
    return {};
  return parser.getChecked<AxisAttr>(location, parser.getContext(), axisClass, map);
}

// ---- verifiers ----

/// Whether each position of an axis is held once by the threads that differ in the map's bits.
static bool holdsEachOnce(const AxisMap &map) {
  if (map.span() < map.extent || map.span() != map.registers() << map.bits.size()) return false;
  std::vector<bool> isHeld(map.span());
  const int64_t mask = map.threadMask();
  for (int64_t thread = mask;; thread = (thread - 1) & mask) { // all that have bits of the mask only
    for (int64_t reg = 0; reg < map.registers(); ++reg) {
      const int64_t position = map.position(thread, reg);
      if (position >= map.span() || isHeld[position]) return false;
      isHeld[position] = true;
    }
    if (thread == 0) return true;
  }
}

/// Whether registers come in runs of adjacent positions, in all threads, at multiples of a run.
static bool hasRuns(const AxisMap &map) {
  if (map.run < 1 || map.registers() % map.run) return false;
  for (int64_t reg = 0; reg < map.registers(); ++reg)
    if (map.offsets[reg] % map.run != reg % map.run ||
        map.offsets[reg] != map.offsets[reg - reg % map.run] + reg % map.run)
      return false;
  return llvm::all_of(map.bits, [&](const layout::ThreadBit &bit) { return bit.stride % map.run == 0; });
}

/// Whether positions are counted with numbers of a sensible size.
static bool isBounded(const AxisMap &map) {
  constexpr int64_t kMostPositions = 1 << 20;
  auto isPosition = [](int64_t n) { return n >= 0 && n < kMostPositions; };
  return map.extent >= 1 && map.extent <= kMostPositions && !map.offsets.empty() &&
         llvm::all_of(map.offsets, isPosition) && llvm::is_sorted(map.offsets) &&
         llvm::all_of(map.bits, [&](const layout::ThreadBit &bit) { return isPosition(bit.stride); });
}

LogicalResult AxisAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t axisClass,
                               AxisMap map) {
  constexpr int kMostBits = 10;
  int64_t seen = 0;
  for (const layout::ThreadBit &bit : map.bits) {
    if (bit.bit < 0 || bit.bit >= kMostBits || (seen >> bit.bit & 1))
      return emitError() << "expected different bits of a thread's number, 0 to " << kMostBits - 1
                         << ", found " << bit.bit;
    seen |= int64_t(1) << bit.bit;
  }
  if (axisClass < 0) return emitError() << "expected a class that is not negative, found " << axisClass;
  if (!isBounded(map))
    return emitError() << "expected an extent of 1 to 1048576, and ascending offsets that are not negative";
  if (!holdsEachOnce(map))
    return emitError() << "expected each of " << map.extent << " positions to have one holder";
  if (hasRuns(map)) return success();
  return emitError() << "expected registers in runs of " << map.run << " adjacent positions";
}

LogicalResult LayoutAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, AxisAttr rows,
                                 AxisAttr columns) {
  if (!(rows.getMap().threadMask() & columns.getMap().threadMask())) return success();
  return emitError() << "expected rows and columns to have different bits of the thread's number";
}

static LogicalResult verifyLayout(Operation *op, Attribute attribute, Type tile, int64_t threads) {
  auto layout = dyn_cast<LayoutAttr>(attribute);
  if (!layout) return op->emitOpError() << "expected a layout, found " << attribute;
  const AxisMap &rows = layout.getRows().getMap(), &columns = layout.getColumns().getMap();
  if (rows.extent != tile::rowsOf(tile) || columns.extent != tile::columnsOf(tile))
    return op->emitOpError() << "expected a layout of " << tile::rowsOf(tile) << "x" << tile::columnsOf(tile)
                             << ", found one of " << rows.extent << "x" << columns.extent;
  if ((rows.threadMask() | columns.threadMask()) < threads) return success();
  return op->emitOpError() << "expected a layout of " << threads << " threads, found one of more";
}

LayoutAttr layoutOf(OpResult tile) {
  Attribute attribute = tile.getOwner()->getAttr(kLayoutAttr);
  auto ofResults = dyn_cast_or_null<ArrayAttr>(attribute);
  if (!ofResults) return dyn_cast_or_null<LayoutAttr>(attribute);
  size_t number = 0;
  for (OpResult result : tile.getOwner()->getResults().take_front(tile.getResultNumber()))
    number += isa<RankedTensorType>(result.getType());
  return number < ofResults.size() ? dyn_cast<LayoutAttr>(ofResults[number]) : LayoutAttr();
}

LogicalResult verifyLayouts(Operation *op) {
  auto kernel = op->getParentOfType<func::FuncOp>();
  auto threads = kernel ? kernel->getAttrOfType<IntegerAttr>(kThreadsAttr) : IntegerAttr();
  if (!threads) return op->emitOpError() << "expected '" << kThreadsAttr << "' on the kernel of a layout";
  SmallVector<Type> tiles =
      llvm::to_vector(llvm::make_filter_range(op->getResultTypes(), llvm::IsaPred<RankedTensorType>));
  Attribute attribute = op->getAttr(kLayoutAttr);
  SmallVector<Attribute> layouts{attribute};
  if (auto ofResults = dyn_cast_or_null<ArrayAttr>(attribute))
    layouts.assign(ofResults.begin(), ofResults.end());
  if (!attribute || layouts.size() != tiles.size())
    return op->emitOpError() << "expected '" << kLayoutAttr << "' of " << tiles.size() << " tiles, found "
                             << (attribute ? layouts.size() : 0);
  for (auto [layout, tile] : llvm::zip(layouts, tiles))
    if (failed(verifyLayout(op, layout, tile, threads.getInt()))) return failure();
  return success();
}

} // namespace tilewright::nvptx

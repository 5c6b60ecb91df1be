#include <algorithm>
#include <numeric>

#include "compiler/nvptx/passes.h"
#include "compiler/nvptx/tile_gpu/axis_meetings.h"
#include "compiler/nvptx/tile_gpu/multiply.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

namespace tilewright::nvptx {

#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "compiler/nvptx/passes.h.inc"

using namespace mlir;
using layout::AxisMap;

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr int kMaxThreadBits = 10;

int ceilLog2(int64_t x) { return static_cast<int>(llvm::Log2_64_Ceil(std::max<int64_t>(x, 1))); }

/// An axis of a group of tiles that share its map.
struct AxisClass {
  int axis = 0;
  int64_t extent = 1;
  int64_t elementBytes = 8; ///< of the narrowest element that is loaded or stored along it
  AxisMap *map = nullptr;
  bool isContracted = false; ///< it is what a product of tiles sums over, of its left operand
};

/// A product's result, or the tile whose rows and columns share the threads.
struct Product {
  Operation *op;
  Multiply multiply;
  int64_t rows, columns;
};

} // namespace

LogicalResult checkTiles(func::FuncOp kernel) {
  constexpr int64_t kMostPositions = kMostRegisters << kMaxThreadBits; // of an axis
  auto isCovered = [](int64_t extent) { return extent <= kMostPositions; };
  WalkResult result = kernel.walk([&](Operation *op) -> WalkResult {
    for (Value value : op->getResults()) {
      if (!isTile(value)) continue;
      if (tile::isLong(value.getType()))
        return op->emitError("makes a long tile; expected stream-rows to have run");
      if (const RankedTensorType type = tile::tileType(value); !llvm::all_of(type.getShape(), isCovered))
        return op->emitError("makes a tile of ")
               << type.getDimSize(0) << "x" << type.getDimSize(1) << "; expected at most " << kMostPositions
               << " rows or columns: use smaller blocks";
      if (auto constant = dyn_cast<arith::ConstantOp>(op))
        if (!cast<DenseElementsAttr>(constant.getValue()).isSplat())
          return op->emitError("is a constant of different elements, which has no NVPTX lowering");
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

class LayoutAssigner {
public:
  LayoutAssigner(Layouts &result, func::FuncOp kernel, const LoweringOptions &options)
      : result(result), kernel(kernel), options(options) {}

  void run() {
    kernel.walk([&](Operation *op) { join(op); });
    collectClasses();
    chooseThreads();
    for (const Product &product : products)
      assignProduct(product);
    assignRows();
    assignColumns();
    for (Value tile : tiles)
      result.layouts_[tile] = {mapOf(tile, 0), mapOf(tile, 1)};
  }

private:
  // ---- classes: a union of (tile, axis) ----

  int node(Value tile, int axis) {
    auto [found, isNew] = nodes.try_emplace(tile, int(parents.size()));
    if (isNew) {
      tiles.push_back(tile);
      for (int i = 0; i < 2; ++i)
        parents.push_back(parents.size());
    }
    return found->second + axis;
  }
  int root(int n) {
    while (parents[n] != n)
      n = parents[n] = parents[parents[n]];
    return n;
  }
  void join(Operation *op) {
    for (Value value : op->getOperands())
      if (isTile(value)) node(value, 0);
    for (Value value : op->getResults())
      if (isTile(value)) node(value, 0);
    if (isa<tile::ContractOp, tile::DotOp>(op)) addProduct(op);
    forEachMeeting(op, [&](Value a, Value b, int axis) {
      const int first = node(a, axis), second = node(b, axis);
      parents[root(first)] = root(second);
    });
  }

  void addProduct(Operation *op) {
    const Multiply multiply = multiplyFor(op, options);
    if (auto dot = dyn_cast<tile::DotOp>(op); dot && multiply == Multiply::mma16)
      leftOperands.push_back(dot.getA());
    auto type = tile::tileType(op->getResult(0));
    products.push_back({op, multiply, type.getDimSize(0), type.getDimSize(1)});
  }

  void collectClasses() {
    for (Value tile : tiles)
      for (int axis : {0, 1}) {
        AxisClass &c = classOf(tile, axis);
        c.axis = axis;
        c.extent = tile::tileType(tile).getDimSize(axis);
        Operation *op = tile.getDefiningOp();
        bool isMoved = isa_and_nonnull<tile::LoadOp, tile::LoadRowsOp>(op) ||
                       llvm::any_of(tile.getUsers(), [](Operation *user) {
                         return isa<tile::StoreOp, tile::StoreRowsOp, tile::ReduceAddOp>(user);
                       });
        if (!isMoved) continue;
        int64_t bytes = std::max<int64_t>(1, tile::tileType(tile).getElementTypeBitWidth() / 8);
        c.elementBytes = std::min(c.elementBytes, bytes);
      }
    for (Value tile : leftOperands)
      classOf(tile, 1).isContracted = true;
  }
  AxisClass &classOf(Value tile, int axis) { return classes[root(node(tile, axis))]; }

  // ---- threads ----

  /// Bits of a thread's number that a product's accumulators want. The limits leave room among 255 registers
  /// for operands and addresses: `tilewright emit --kernel matmul --target sm_80 --stage ptx`, 128×128, takes
  /// 222 in bf16, 208 in TF32 and 225 in fp32 (ptxas -v of CUDA 13.0, 2026-11-25).
  static int threadBitsFor(const Product &product) {
    constexpr int64_t kOfMma = 128, kOfFma = 64; // of fma, operands are loaded anew for each of them
    constexpr int64_t kMost = 192;               // beyond which more threads must share
    constexpr int64_t kManyElements = 4096;      // whose panels of fma are staged by 256 threads
    const bool adds = product.multiply == Multiply::fma;
    const int64_t accumulators = adds ? kOfFma : kOfMma;
    const int64_t elements = llvm::alignTo(product.rows, 16) * llvm::alignTo(product.columns, 16);
    // A third more than that is better held by the same threads than halved.
    const int wanted = ceilLog2(llvm::divideCeil(2 * elements, 3 * accumulators));
    const int bits = std::clamp(wanted, adds && elements > kManyElements ? 8 : 7, 8);
    return elements >> bits > kMost ? std::max(bits, 9) : bits;
  }

  void chooseThreads() {
    int bits = 5;
    for (const Product &product : products)
      bits = std::max(bits, threadBitsFor(product));
    if (products.empty())
      for (Value tile : tiles) {
        auto type = tile::tileType(tile);
        int64_t perThread = kAccessBytes / std::min<int64_t>(4, classOf(tile, 1).elementBytes);
        int wanted = ceilLog2(llvm::divideCeil(type.getNumElements(), perThread));
        bits = std::max(bits, std::min(wanted, 8));
      }
    if (options.warps > 0) bits = 5 + ceilLog2(options.warps);
    result.threadBits_ = std::min(bits, kMaxThreadBits);
  }

  // ---- maps ----

  const AxisMap *mapOf(Value tile, int axis) {
    return tile::tileType(tile).getDimSize(axis) == 1 ? &result.single_ : classOf(tile, axis).map;
  }

  AxisMap *keep(AxisMap map) {
    result.maps_.push_back(std::make_unique<AxisMap>(std::move(map)));
    return result.maps_.back().get();
  }

  /// Bits of the thread's number, lowest first, without those of `taken`.
  std::vector<int> freeBits(int64_t taken) const {
    std::vector<int> bits;
    for (int bit = 0; bit < result.threadBits_; ++bit)
      if (!(taken >> bit & 1)) bits.push_back(bit);
    return bits;
  }

  void assignProduct(const Product &product) {
    auto [rows, columns] = product.multiply == Multiply::fma ? registerTile(product) : accumulators(product);
    TileLayout layout{shared(0, std::move(rows), product.op), shared(1, std::move(columns), product.op)};
    result.products_[product.op] = layout;
  }

  /// The map of the class, if it has the same one. A class without a map takes the product's, unless the
  /// other axis of its tiles has some of the same bits: the product's result is then moved to another layout.
  const AxisMap *shared(int axis, AxisMap map, Operation *product) {
    AxisClass &c = classOf(product->getResult(0), axis);
    if (c.map && *c.map == map) return c.map;
    AxisMap *kept = keep(std::move(map));
    if (!c.map && c.extent > 1 && !(kept->threadMask() & takenAcross(c))) c.map = kept;
    return kept;
  }

  /// Bits of the thread's number that the other axes of a class's tiles have already.
  int64_t takenAcross(const AxisClass &c) {
    int64_t taken = 0;
    for (Value tile : tiles)
      if (&classOf(tile, c.axis) == &c)
        if (const AxisMap *other = classOf(tile, 1 - c.axis).map) taken |= other->threadMask();
    return taken;
  }

  /// Axes of a product's result that have a map already, which is not this one.
  int64_t axesMoved(const Product &product, const AxisMap &rows, const AxisMap &columns) {
    const AxisMap *known[] = {classOf(product.op->getResult(0), 0).map,
                              classOf(product.op->getResult(0), 1).map};
    return (known[0] && *known[0] != rows) + (known[1] && *known[1] != columns);
  }

  /// The grid of warps by which most of the result stays where it is, and of these the one whose operands are
  /// smallest; warpgroups have rows of their own, if they can.
  std::pair<AxisMap, AxisMap> accumulators(const Product &product) {
    if (product.multiply == Multiply::wgmma) {
      const bool swaps = options.swapsOperands;
      const int64_t left = swaps ? product.columns : product.rows,
                    right = swaps ? product.rows : product.columns;
      const int groupBits = result.threadBits_ - 7;
      const bool splitsRight = groupBits && left % 128 != 0;
      AxisMap ofLeft = layout::warpgroupRows(left, splitsRight ? 0 : groupBits);
      AxisMap ofRight = layout::warpgroupColumns(right, splitsRight ? freeBits(127) : std::vector<int>());
      if (swaps) std::swap(ofLeft, ofRight);
      return {std::move(ofLeft), std::move(ofRight)};
    }
    std::vector<int> warpBits = freeBits(31);
    int total = int(warpBits.size());
    std::pair<int64_t, int64_t> bestCost{INT64_MAX, 0};
    std::pair<AxisMap, AxisMap> best;
    if (auto dot = dyn_cast<tile::DotOp>(product.op);
        dot && isForWarpgroups(dot, result.threadBits_, options)) {
      best = warpgroupMaps(product.rows, product.columns, result.threadBits_);
      bestCost = {axesMoved(product, best.first, best.second), 0};
    }
    // The accumulators of whole rows are the left operand's fragments of the product that sums over them.
    const bool hasWholeRows =
        classOf(product.op->getResult(0), 1).isContracted && product.rows >= 16 << total;
    for (int rowBits = hasWholeRows ? total : 0; rowBits <= total; ++rowBits) {
      auto middle = warpBits.begin() + (total - rowBits);
      std::pair<AxisMap, AxisMap> maps{
          layout::accumulatorRows(product.rows, {middle, warpBits.end()}),
          layout::accumulatorColumns(product.columns, {warpBits.begin(), middle})};
      int64_t rows = layout::warpStretch(product.rows, rowBits);
      int64_t columns = layout::warpStretch(product.columns, total - rowBits);
      std::pair<int64_t, int64_t> cost{axesMoved(product, maps.first, maps.second),
                                       rows * columns * 1024 + rows + columns};
      if (cost < bestCost) bestCost = cost, best = std::move(maps);
    }
    return best;
  }

  /// About as many rows as columns for each thread.
  std::pair<AxisMap, AxisMap> registerTile(const Product &product) const {
    constexpr int64_t run = kRegisterTileRun;
    int total = result.threadBits_, most = ceilLog2(llvm::divideCeil(product.columns, run));
    int rowMost = ceilLog2(llvm::divideCeil(product.rows, run));
    int columnBits = std::clamp(ceilLog2(product.columns) - 3,
                                std::min(most, total - std::min(rowMost, total)), std::min(most, total));
    std::vector<int> bits = freeBits(0);
    int rowBits = std::min(total - columnBits, rowMost);
    std::vector<int> low(bits.begin(), bits.begin() + columnBits);
    std::vector<int> high(bits.begin() + columnBits, bits.begin() + columnBits + rowBits);
    return {layout::blockedMap(product.rows, high, run), layout::blockedMap(product.columns, low, run)};
  }

  /// The longest run of columns that one access can move.
  static int64_t runOf(const AxisClass &columns) {
    int64_t run = kAccessBytes / std::min<int64_t>(4, columns.elementBytes);
    while (run > columns.extent)
      run /= 2;
    return run;
  }

  void assignRows() {
    for (Value tile : tiles) {
      AxisClass &rows = classOf(tile, 0);
      if (rows.extent == 1 || rows.map) continue;
      // Columns come first: the threads along a row read adjacent memory and share the row's sums.
      int columnBits = 0;
      const int64_t taken = takenAcross(rows);
      for (Value other : tiles) {
        AxisClass &columns = classOf(other, 1);
        if (&classOf(other, 0) != &rows || columns.extent == 1) continue;
        columnBits = std::max(columnBits, ceilLog2(llvm::divideCeil(columns.extent, runOf(columns))));
      }
      std::vector<int> bits = freeBits(taken);
      int wanted = ceilLog2(rows.extent);
      int left = taken ? int(bits.size()) : std::max(0, result.threadBits_ - columnBits);
      int count = std::min({wanted, left, int(bits.size())});
      rows.map = keep(layout::blockedMap(rows.extent, {bits.end() - count, bits.end()}, 1));
    }
  }

  void assignColumns() {
    for (Value tile : tiles) {
      AxisClass &columns = classOf(tile, 1);
      if (columns.extent == 1 || columns.map) continue;
      std::vector<int> bits = freeBits(takenAcross(columns));
      int64_t run = runOf(columns);
      int count = std::min(ceilLog2(llvm::divideCeil(columns.extent, run)), int(bits.size()));
      columns.map = keep(layout::blockedMap(columns.extent, {bits.begin(), bits.begin() + count}, run));
    }
  }

  Layouts &result;
  func::FuncOp kernel;
  const LoweringOptions &options;
  SmallVector<Value> tiles;
  DenseMap<Value, int> nodes;
  std::vector<int> parents;
  DenseMap<int, AxisClass> classes;
  SmallVector<Product> products;
  SmallVector<Value> leftOperands; ///< of products of tiles by mma.sync
};

Layouts::Layouts(func::FuncOp kernel, const LoweringOptions &options) {
  LayoutAssigner(*this, kernel, options).run();
}

namespace {

struct AssignLayoutsPass : impl::AssignLayoutsBase<AssignLayoutsPass> {
  using AssignLayoutsBase::AssignLayoutsBase;

  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!kernel->hasAttr(tile::kKernelAttr)) return;
    if (failed(checkTiles(kernel))) return signalPassFailure();
    LoweringOptions options;
    options.warps = warps;
    options.tf32 = tf32;
    options.wgmma = wgmma;
    const std::optional<WarpPlan> plan = planOf(kernel);
    if (failed(Layouts(kernel, plan ? plan->consumers(options) : options).write(kernel))) signalPassFailure();
  }
};

} // namespace

} // namespace tilewright::nvptx

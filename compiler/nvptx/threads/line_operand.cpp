#include "compiler/nvptx/threads/line_operand.h"

#include "compiler/nvptx/ptx/async_copy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::Side;

namespace {

constexpr int64_t kBytes = 2, kChunk = 8, kFragment = 16, kWarp = 32;

} // namespace

LineOperand::LineOperand(Lowering &lowering, const Strip &strip, Side side, int64_t step)
    : lowering(lowering), e(lowering.emitter()), strip(strip),
      side(side), tile{strip.map->span(), step, strip.depthIsMinor}, threads(lowering.layouts().threads()),
      aligned(strip.isAligned(e)), low(free(e.i64(0) - strip.offset)),
      high(free(strip.view.sizes[strip.freeAxis()] - strip.offset)) {}

void LineOperand::copy(Num shared, Num k) {
  Value inChunks = aligned;
  if (strip.mayBeginAhead)
    inChunks =
        e.both(inChunks, e.b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sge, k.value, e.i64(0).value));
  if (strip.mayBeginAhead && strip.depthIsMinor) inChunks = e.both(inChunks, (k & (kChunk - 1)) == 0);
  auto branch = e.b.create<scf::IfOp>(inChunks, /*withElseRegion=*/true);
  e.inside(branch.thenBlock(), [&] {
    if (!strip.mayBeginAhead || strip.map->isPadded()) return copyChunks(shared, k, /*areLive=*/false);
    auto whole = e.b.create<scf::IfOp>(isWhole(k), /*withElseRegion=*/true);
    e.inside(whole.thenBlock(), [&] { copyChunks(shared, k, /*areLive=*/true); });
    e.inside(whole.elseBlock(), [&] { copyChunks(shared, k, /*areLive=*/false); });
  });
  e.inside(branch.elseBlock(), [&] { copyElements(shared, k); });
}

/// Of the chunks that ldmatrix loads for a lane, the one of the tile's first fragment.
static layout::FragmentPosition<Num> firstChunk(Lowering &lowering, const layout::AxisMap &map, Side side,
                                                bool depthIsMinor) {
  Num thread = lowering.emitter().thread();
  auto at = layout::fragmentPosition<Num>(side, depthIsMinor, thread % kWarp);
  // What the lane's bits add to the accumulators' positions is no part of the warp's.
  Num lanePosition = side == Side::left ? thread % kWarp / 4 : thread % 4 * 2;
  at.position = lowering.threadPosition(map) - lanePosition + at.position;
  return at;
}

/// Fragments along the free axis: a left one has 2 of a thread's registers, two right ones come from one
/// load.
static int64_t loadsOf(const layout::AxisMap &map, Side side) {
  return map.registers() / (side == Side::left ? 2 : 4);
}

static void loadMatrices(Emitter &e, Side side, bool transposes, Num address, int64_t further,
                         SmallVector<SmallVector<Value>> &result) {
  std::string text = std::string("ldmatrix.sync.aligned.m8n8.x4") + (transposes ? ".trans" : "") +
                     ".shared.b16 {$0, $1, $2, $3}, [$4+" + std::to_string(further) + "];";
  SmallVector<Type> words(4, e.b.getI32Type());
  SmallVector<Value> four = e.ptx(words, text, "=r,=r,=r,=r,r", {address.value}, true);
  if (side == Side::left)
    result.push_back(four);
  else
    result.append({{four[0], four[1]}, {four[2], four[3]}});
}

SmallVector<SmallVector<Value>> loadFragments(Lowering &lowering, const layout::AxisMap &map,
                                              const layout::SharedTile &tile, Side side, Num shared,
                                              int64_t k) {
  SmallVector<SmallVector<Value>> result;
  const bool minor = tile.depthIsMinor;
  const auto at = firstChunk(lowering, map, side, minor);
  for (int64_t i = 0; i < loadsOf(map, side); ++i) {
    // Along the lines' axis the swizzle moves chunks, along the other one a constant step leads to the
    // next.
    Num offset = minor ? tile.offset(at.position, at.k + k) : tile.offset(at.position + i * kFragment, at.k);
    int64_t further = (minor ? i * kFragment : k) * tile.lineElements() * kBytes;
    loadMatrices(lowering.emitter(), side, !minor, shared + offset, further, result);
  }
  return result;
}

SmallVector<SmallVector<Value>> loadFragmentsByOne(Lowering &lowering, const layout::AxisMap &map,
                                                   const layout::SharedTile &tile, Side side, Num shared,
                                                   int64_t k) {
  Emitter &e = lowering.emitter();
  SmallVector<SmallVector<Value>> result;
  const bool minor = tile.depthIsMinor;
  const auto at = firstChunk(lowering, map, side, minor);
  Num first = e.pinned(tile.offset(at.position, at.k));
  for (int64_t i = 0; i < loadsOf(map, side); ++i) {
    const int64_t position = i * kFragment, alongLine = minor ? k : position;
    const int64_t chunk = alongLine % tile.lineElements() / kChunk;
    const int64_t panel = alongLine / tile.lineElements(), line = minor ? position : k;
    const int64_t further = (panel * tile.lines() + line) * tile.lineElements() * kBytes;
    loadMatrices(e, side, !minor, shared + (first ^ e.i32(chunk * kChunk * kBytes)), further, result);
  }
  return result;
}

Num LineOperand::free(Num position) {
  Num clamped = minimum(maximum(position, e.i64(0)), e.i64(strip.map->extent));
  return e.narrow(clamped);
}

int64_t LineOperand::minorChunks() const {
  return (strip.depthIsMinor ? tile.depth : tile.positions) / kChunk;
}
int64_t LineOperand::totalChunks() const { return tile.positions * tile.depth / kChunk; }

/// Position and depth of the first element of a chunk, numbered along memory.
std::pair<Num, Num> LineOperand::place(Num chunk) {
  Num major = chunk / minorChunks(), minor = chunk % minorChunks() * kChunk;
  return strip.depthIsMinor ? std::pair{major, minor} : std::pair{minor, major};
}

Value LineOperand::isLivePosition(Num position) { return unsignedLess(position - low, high - low); }

Value LineOperand::isLiveDepth(Num k, Num depth, Num first) {
  if (!strip.mayBeginAhead) return k < depth;
  Value isInside =
      e.b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, (e.wide(k) + first).value, e.i64(0).value);
  return e.both(k < depth, isInside);
}

/// Whether the view has all of the tile. Then no copy has anything to compare, which for tiles in a loop is
/// half of its instructions.
Value LineOperand::isWhole(Num first) {
  Value positions = e.both(low == 0, high == strip.map->extent);
  return e.both(positions, strip.liveDepth(e, first, tile.depth) == tile.depth);
}

void LineOperand::copyChunks(Num shared, Num first, bool areLive) {
  Num depth = strip.liveDepth(e, first, tile.depth), thread = e.pinned(e.thread());
  auto [position0, k0] = place(thread);
  Num next = strip.address(e, position0, k0, first), offset0 = tile.offset(position0, k0);
  const int64_t lines = threads / minorChunks(); // that all threads copy at once
  const bool isRegular = threads % minorChunks() == 0 && lines % 8 == 0;
  for (int64_t begin = 0, i = 0; begin < totalChunks(); begin += threads, ++i) {
    auto one = [&] {
      Num position = position0, k = k0, from = next, to = offset0;
      if (isRegular) { // the swizzle repeats after 8 lines
        (strip.depthIsMinor ? position : k) = (strip.depthIsMinor ? position0 : k0) + i * lines;
        to = offset0 + i * lines * tile.lineElements() * kBytes;
        next = next + strip.view.rowStride * (kBytes * lines);
      } else {
        std::tie(position, k) = place(thread + begin);
        from = strip.address(e, position, k, first);
        to = tile.offset(position, k);
      }
      copyAsync(e, shared + to, from, 16, areLive ? Value() : liveBytes(position, k, depth).value);
    };
    if (begin + threads <= totalChunks()) {
      one();
    } else {
      auto rest = e.b.create<scf::IfOp>(thread + begin < totalChunks());
      e.inside(rest.thenBlock(), one);
    }
  }
}

/// Bytes of a chunk that lie inside the view.
Num LineOperand::liveBytes(Num position, Num k, Num depth) {
  Num left = strip.depthIsMinor ? depth - k : high - position;
  Value live = strip.depthIsMinor ? isLivePosition(position) : k < depth;
  Num count = minimum(maximum(left, e.i32(0)), e.i32(kChunk));
  return e.choose(live, count * kBytes, e.i32(0));
}

/// Rows that are not aligned to 16 bytes: element by element through registers.
void LineOperand::copyElements(Num shared, Num first) {
  Num depth = strip.liveDepth(e, first, tile.depth);
  auto index = [&](int64_t value) { return e.toIndex(e.i64(value)); };
  auto loop = e.b.create<scf::ForOp>(e.toIndex(e.wide(e.thread())), index(totalChunks()), index(threads));
  e.inside(loop.getBody(), [&] {
    auto [position, k] = place(e.narrow(e.fromIndex(loop.getInductionVar())));
    Num from = strip.address(e, position, k, first);
    SmallVector<Value> words;
    for (int64_t i = 0; i < kChunk; ++i) {
      Value live = strip.depthIsMinor ? e.both(isLivePosition(position), isLiveDepth(k + i, depth, first))
                                      : e.both(isLivePosition(position + i), isLiveDepth(k, depth, first));
      Value half = e.loadGlobal(from, i * kBytes, e.b.getIntegerType(16), 1, live)[0];
      Value bits = e.b.create<arith::ExtUIOp>(e.b.getI32Type(), half);
      if (i % 2 == 0) {
        words.push_back(bits);
      } else {
        Value high = e.b.create<arith::ShLIOp>(bits, e.i32(16).value);
        words.back() = e.b.create<arith::OrIOp>(words.back(), high);
      }
    }
    e.storeShared(shared + tile.offset(position, k), 0, words);
  });
}

} // namespace tilewright::nvptx

#include "compiler/nvptx/threads/tile_operands.h"

#include "compiler/nvptx/ptx/async_copy.h"
#include "compiler/nvptx/tile_gpu/multiply.h"
#include "llvm/ADT/MapVector.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;
using layout::Side;

namespace {

constexpr int64_t kBytes = 2, kChunk = 8;

/// The load, perhaps transposed, that the right operand is, if cp.async can take it.
tile::LoadOp copiedLoadOf(const Lowering &lowering, tile::DotOp op) {
  Operation *source = op.getB().getDefiningOp();
  if (auto transpose = dyn_cast_or_null<tile::TransposeOp>(source))
    source = transpose.getValue().getDefiningOp();
  auto load = dyn_cast_or_null<tile::LoadOp>(source);
  if (!load || lowering.memory().readsWritten(load)) return {};
  return cast<tile::ViewType>(load.getView().getType()).getRank() == 2 ? load : tile::LoadOp();
}

/// Whether nothing but products by mma.sync takes a load that cp.async can take, on their left.
bool isLeftAlone(const Lowering &lowering, tile::LoadOp load) {
  if (cast<tile::ViewType>(load.getView().getType()).getRank() != 2 || lowering.memory().readsWritten(load))
    return false;
  return llvm::all_of(load->getUsers(), [&](Operation *user) {
    auto product = dyn_cast<tile::DotOp>(user);
    return product && product.getA() == load.getResult() && product.getB() != load.getResult() &&
           multiplyFor(product) == Multiply::mma16;
  });
}

bool isTransposed(tile::DotOp op) { return op.getB().getDefiningOp<tile::TransposeOp>() != nullptr; }

/// Whether the load's view and place are known where `op` stands.
bool isKnownAt(tile::LoadOp load, Operation *op) {
  return llvm::all_of(load->getOperands(), [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    return !maker || isMadeAhead(maker, op);
  });
}

} // namespace

LeftLines::LeftLines(tile::DotOp op, const AxisMap &rows)
    : lines{rows.span(), tile::columnsOf(op.getA().getType()) % 64 == 0 ? 64 : 32, true},
      parts(tile::columnsOf(op.getA().getType()) / lines.depth) {}

RightTile::RightTile(Lowering &lowering, tile::DotOp op, const AxisMap &columns)
    : lowering(lowering), e(lowering.emitter()), op(op),
      columns(columns), lines{columns.span(), tile::rowsOf(op.getB().getType()), false} {
  if (!isTransposed(op) || !copiedLoadOf(lowering, op)) return;
  const int64_t depth = lines.depth % 64 == 0 ? 64 : 32; // of a line
  parts = lines.depth / depth;
  lines.depth = depth, lines.depthIsMinor = true;
}

void RightTile::store(Num shared) {
  if (tile::LoadOp load = copiedLoadOf(lowering, op)) return copy(shared, load);
  storeTile(lowering, op.getB(), /*asFp32=*/false,
            [&](Num k, Num column) { return shared + lines.offset(column, k) + column % kChunk * kBytes; });
}

void RightTile::copy(Num shared, tile::LoadOp load) {
  const MemoryView &view = lowering.view(load.getView());
  Num row = lowering.scalar(load.getOffsets()[0]), column = lowering.scalar(load.getOffsets()[1]);
  const int contracted = lines.depthIsMinor ? 1 : 0;
  const Strip strip{
      view, lines.depthIsMinor ? row : column, lines.depthIsMinor, view.sizes[contracted], &columns, true};
  LineOperand operand(lowering, strip, Side::right, lines.depth);
  Num first = lines.depthIsMinor ? column : row;
  for (int64_t part = 0; part < parts; ++part)
    operand.copy(shared + part * lines.bytes(), first + part * lines.depth);
  commitCopies(e);
}

SmallVector<SmallVector<Value>> RightTile::fragments(Num shared, int64_t k) {
  return loadFragmentsByOne(lowering, columns, lines, Side::right, shared + k / lines.depth * lines.bytes(),
                            k % lines.depth);
}

WgmmaOperand RightTile::forWgmma(Num shared, int64_t k) const {
  if (lines.depthIsMinor) return {shared + k / lines.depth * lines.bytes(), true};
  return {shared + k * kLineBytes, false, lines.depth * kLineBytes};
}

bool isMadeAhead(Operation *maker, Operation *op) {
  return maker->getBlock() != op->getBlock() || maker->isBeforeInBlock(op);
}

bool isCopiedToShared(const Lowering &lowering, tile::TransposeOp op) {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    auto product = dyn_cast<tile::DotOp>(user);
    return product && product.getB() == op.getResult() && product.getA() != op.getResult() &&
           multiplyFor(product) == Multiply::mma16 && copiedLoadOf(lowering, product);
  });
}

CopiesAhead::CopiesAhead(Lowering &lowering) : lowering(lowering) {
  func::FuncOp kernel = lowering.function();
  bool hasContracts = false; // whose stages take what shared memory there is
  llvm::MapVector<Block *, Group> blocks;
  kernel.walk([&](Operation *op) {
    hasContracts |= isa<tile::ContractOp>(op);
    auto product = dyn_cast<tile::DotOp>(op);
    if (!product || multiplyFor(product) != Multiply::mma16) return;
    hasWgmma |= isByWgmma(product, lowering.layouts(), lowering.options());
    auto &products = blocks[op->getBlock()].products;
    tile::LoadOp load = copiedLoadOf(lowering, product);
    if (load && isKnownAt(load, products.empty() ? op : products.front())) products.push_back(product);
  });
  if (hasContracts) return;
  kernel.walk([&](tile::LoadOp load) { addLeft(load); });
  const int64_t behindLefts = bytes_;
  const auto holdsOther = [&](Block *block) {
    return llvm::any_of(blocks, [&](const auto &other) {
      return other.first != block && block->getParentOp()->isProperAncestor(other.first->getParentOp());
    });
  };
  const bool areNested = llvm::any_of(blocks, [&](const auto &entry) { return holdsOther(entry.first); });
  for (auto &[block, group] : blocks)
    if (group.products.size() > 1) add(group, areNested ? bytes_ : behindLefts);
  if (bytes_ <= lowering.options().sharedLimit / 2) return;
  lefts.clear(), groups.clear(), bytes_ = 0; // the other half is for everything else
}

void CopiesAhead::add(Group group, int64_t begin) {
  for (tile::DotOp product : group.products) {
    group.offsets.push_back(begin);
    begin += RightTile(lowering, product, *lowering.layouts().ofProduct(product).columns).bytes();
  }
  bytes_ = std::max(bytes_, begin);
  groups.push_back(std::move(group));
}

const CopiesAhead::Group *CopiesAhead::groupOf(tile::DotOp op) const {
  auto found =
      llvm::find_if(groups, [&](const Group &group) { return llvm::is_contained(group.products, op); });
  return found == groups.end() ? nullptr : &*found;
}

void CopiesAhead::start(tile::DotOp op) const {
  const Group *group = groupOf(op);
  if (!group || group->products.front() != op) return;
  lowering.order().barrier();
  for (auto [product, offset] : llvm::zip(group->products, group->offsets))
    RightTile(lowering, product, *lowering.layouts().ofProduct(product).columns).store(memory() + offset);
}

std::optional<Num> CopiesAhead::placeOf(tile::DotOp op) const {
  const Group *group = groupOf(op);
  if (!group) return std::nullopt;
  return memory() + group->offsets[llvm::find(group->products, op) - group->products.begin()];
}

int64_t CopiesAhead::startedAfter(tile::DotOp op) const {
  const auto &products = groupOf(op)->products;
  return products.end() - llvm::find(products, op) - 1;
}

void CopiesAhead::addLeft(tile::LoadOp load) {
  if (load->use_empty() || !isLeftAlone(lowering, load)) return;
  auto first = cast<tile::DotOp>(*load->user_begin());
  const AxisMap *rows = lowering.layouts().ofProduct(first).rows;
  for (Operation *user : load->getUsers())
    if (lowering.layouts().ofProduct(user).rows->span() != rows->span()) return;
  lefts[load] = {bytes_, rows};
  bytes_ += LeftLines(first, *rows).bytes();
}

void CopiesAhead::startLeft(tile::LoadOp load) const {
  const Left &left = lefts.find(load)->second;
  const LeftLines lines(cast<tile::DotOp>(*load->user_begin()), *left.rows);
  const MemoryView &view = lowering.view(load.getView());
  const Strip strip{view, lowering.scalar(load.getOffsets()[0]), true, view.sizes[1], left.rows, true};
  lowering.order().barrier();
  LineOperand operand(lowering, strip, Side::left, lines.lines.depth);
  for (int64_t part = 0; part < lines.parts; ++part)
    operand.copy(memory() + (left.offset + part * lines.lines.bytes()),
                 lowering.scalar(load.getOffsets()[1]) + part * lines.lines.depth);
  commitCopies(lowering.emitter());
}

std::optional<Num> CopiesAhead::placeOfLeft(tile::DotOp op) const {
  auto found = lefts.find(op.getA().getDefiningOp());
  return found == lefts.end() ? std::nullopt : std::optional(memory() + found->second.offset);
}

} // namespace tilewright::nvptx

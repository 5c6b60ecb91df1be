#include "compiler/nvptx/specialize_warps.h"
#include "compiler/nvptx/stage_ring.h"
#include "compiler/nvptx/warp_roles.h"
#include "compiler/nvptx/wgmma_product.h"

namespace tilewright::nvptx {

using namespace mlir;

namespace {

/// The kernel's only product, under conditions at most; null if there is another form.
tile::ContractOp onlyProduct(func::FuncOp kernel) {
  tile::ContractOp found;
  int64_t products = 0;
  kernel.walk([&](Operation *op) {
    if (isa<tile::ContractOp, tile::DotOp>(op)) ++products;
    if (auto contract = dyn_cast<tile::ContractOp>(op)) found = contract;
  });
  if (products != 1 || !found) return {};
  for (Operation *parent = found->getParentOp(); parent != kernel; parent = parent->getParentOp())
    if (auto branch = dyn_cast<scf::IfOp>(parent); !branch || !branch.getElseRegion().empty()) return {};
  return found;
}

/// The copy engine reads whole matrices. A narrowed contracted axis is cleared behind its end, where lines
/// run across it.
bool canCopy(Value view, int64_t contractedAxis, int64_t positions) {
  const bool depthIsMinor = contractedAxis == 1;
  while (auto narrow = view.getDefiningOp<tile::NarrowOp>()) {
    if (int64_t(narrow.getAxis()) != contractedAxis || depthIsMinor) return false;
    view = narrow.getView();
  }
  return isa<BlockArgument>(view) && (depthIsMinor ? positions <= 256 : positions % 64 == 0);
}

bool isWritten(func::FuncOp kernel, Value view) {
  auto argument = cast<BlockArgument>(rootOf(view));
  return kernel.getArgAttr(argument.getArgNumber(), tile::kWrittenAttr) != nullptr;
}

bool rolesFit(WarpRoles roles, int64_t rows, int64_t columns) {
  if (columns % 8 || columns > 256) return false;
  if (roles == WarpRoles::cooperative) return rows % 128 == 0 && rows * columns / 256 <= 128;
  return roles == WarpRoles::pingPong && rows % 64 == 0 && rows * columns / 128 <= 192;
}

} // namespace

std::optional<WarpPlan> planWarps(func::FuncOp kernel, const LoweringOptions &options) {
  if (!options.hopper || options.roles == WarpRoles::alike) return std::nullopt;
  tile::ContractOp product = onlyProduct(kernel);
  if (!product) return std::nullopt;
  auto elementOf = [](Value view) { return cast<tile::ViewType>(view.getType()).getElement(); };
  Type element = elementOf(product.getA());
  const bool is16Bit = element.isBF16() || element.isF16();
  auto type = tile::tileType(product.getResult());
  const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  if (!is16Bit || elementOf(product.getB()) != element || isWritten(kernel, product.getA()) ||
      isWritten(kernel, product.getB()) || !canCopy(product.getA(), product.getAAxis(), rows) ||
      !canCopy(product.getB(), product.getBAxis(), columns))
    return std::nullopt;
  WarpRoles roles = options.roles;
  if (roles == WarpRoles::automatic)
    roles = rolesFit(WarpRoles::pingPong, rows, columns) ? WarpRoles::pingPong : WarpRoles::cooperative;
  if (!rolesFit(roles, rows, columns)) return std::nullopt;

  const int64_t stageBytes = (rows + columns) * kStageDepth * 2;
  const int64_t room = options.sharedLimit - kExchangeBytes - 1024; // alignment of the exchange's memory
  int64_t fitting = room / StageRing::bytes(1, stageBytes);
  int64_t stages = std::min<int64_t>(fitting, options.stages ? options.stages : 4);
  if (stages < 2 || !isProducible(kernel, product)) return std::nullopt;
  return WarpPlan{roles, stages, rows, columns};
}

} // namespace tilewright::nvptx

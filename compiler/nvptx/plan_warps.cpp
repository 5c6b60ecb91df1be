#include "compiler/dialect/kernel_signature.h"
#include "compiler/nvptx/hopper/specialize_warps.h"
#include "compiler/nvptx/hopper/stage_ring.h"
#include "compiler/nvptx/hopper/staged_operand.h"
#include "compiler/nvptx/hopper/tile_store.h"
#include "compiler/nvptx/hopper/warp_roles.h"
#include "compiler/nvptx/passes.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"

namespace tilewright::nvptx {

#define GEN_PASS_DEF_PLANWARPS
#include "compiler/nvptx/passes.h.inc"

using namespace mlir;

namespace {

constexpr int64_t kStages = 4; ///< where nobody asks for another number
// Of each warp, as shared memory has room for behind the stages.
constexpr int64_t kLeastBoxes = 2, kMostBoxes = 4;

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

/// The copy engine reads whole matrices. A narrowed contracted axis is cleared behind its end.
bool canCopy(Value view, int64_t contractedAxis, int64_t positions) {
  const bool depthIsMinor = contractedAxis == 1;
  while (auto narrow = view.getDefiningOp<tile::NarrowOp>()) {
    if (int64_t(narrow.getAxis()) != contractedAxis) return false;
    view = narrow.getView();
  }
  return isa<BlockArgument>(view) && (depthIsMinor ? positions <= 256 : positions % 64 == 0);
}

bool hasShapeOf(tile::ContractOp product, Value tile) {
  return tile::tileType(tile).getShape() == tile::tileType(product.getResult()).getShape();
}

/// Whether a store is of a tile of the product's shape.
bool storesTile(Operation *op, tile::ContractOp product) {
  return isStore(op) && hasShapeOf(product, tileOf(op));
}

/// A store of the whole product's shape and layout to a matrix that nothing else touches, but what is
/// replaced: threads could not see what the copy engine has yet to write.
Operation *boxedStore(func::FuncOp kernel, tile::ContractOp product, const Layouts &layouts) {
  Operation *found = nullptr;
  llvm::DenseMap<Value, int64_t> accesses;
  kernel.walk([&](Operation *op) {
    if ((!isLoad(op) && !isStore(op)) || (isLoad(op) && isReplaced(op))) return;
    ++accesses[rootOf(viewOf(op))];
    if (!found && storesTile(op, product) && layouts.of(tileOf(op)) == layouts.ofProduct(product) &&
        TileStore::canStore(op))
      found = op;
  });
  return found && accesses[rootOf(viewOf(found))] == 1 ? found : nullptr;
}

/// Whether ptxas has registers for sums that the first step replaces. It spills for some kernels that reduce
/// the product twice, or once and store it with more steps to a number (CUDA 13.0, 2026-11-28). What is done
/// in a branch behind the product is not counted.
bool mayReplaceSums(tile::ContractOp product) {
  constexpr int64_t kFewSteps = 17;
  int64_t reductions = 0, stores = 0, steps = 0;
  for (Operation &op : *product->getBlock()) {
    reductions += isa<tile::ReduceOp>(op) && hasShapeOf(product, op.getOperand(0));
    stores += storesTile(&op, product);
    steps += isElementwise(&op) && hasShapeOf(product, op.getResult(0));
  }
  return reductions + stores <= 1 || (reductions <= 1 && steps <= kFewSteps);
}

bool rolesFit(const WarpPlan &plan) {
  constexpr int64_t kMostAccumulators = 200; // of a thread, which has 240 registers then
  const int64_t left = plan.left(), right = plan.right();
  if (left % 64 || right % 8 || right > 256 || plan.accumulators() > kMostAccumulators) return false;
  return plan.roles == WarpRoles::pingPong || left % 128 == 0 || right % 128 == 0;
}

/// Whether neighbours along an axis of the grid do the same steps of the product.
bool runInStep(func::FuncOp kernel, tile::ContractOp product, int64_t axis) {
  if (tile::gridOf(kernel).size() != 2) return false;
  SmallVector<Value> open{product.getAOffset()};
  if (product.getPart()) open.push_back(product.getPart());
  for (Operation *parent = product->getParentOp(); parent != kernel; parent = parent->getParentOp())
    open.push_back(cast<scf::IfOp>(parent).getCondition());
  for (Value view : {Value(product.getA()), Value(product.getB())})
    for (auto narrow = view.getDefiningOp<tile::NarrowOp>(); narrow;
         narrow = narrow.getView().getDefiningOp<tile::NarrowOp>())
      open.push_back(narrow.getSize());
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second) continue;
    auto id = dyn_cast<tile::ProgramIdOp>(op);
    if (op->getNumRegions() || (id && int64_t(id.getAxis()) == axis)) return false;
    open.append(op->operand_begin(), op->operand_end());
  }
  return true;
}

/// Two CTAs share the larger operand that they can.
void shareOperand(func::FuncOp kernel, tile::ContractOp product, WarpPlan &plan) {
  const StagedOperand operands[] = {{plan.rows, product.getAAxis() == 1, plan.stageDepth, {}, {}},
                                    {plan.columns, product.getBAxis() == 1, plan.stageDepth, {}, {}}};
  const int64_t larger = plan.rows >= plan.columns ? 0 : 1;
  for (int64_t operand : {larger, 1 - larger}) {
    const int64_t axis = 1 - operand;
    if (!operands[operand].canShare(2) || !runInStep(kernel, product, axis)) continue;
    plan.clusterCtas = 2;
    plan.clusterAxis = axis;
    return;
  }
}

/// Bytes of an operand's numbers if the tensor cores take both operands from shared memory, else 0. TF32 only
/// where lines run along the contracted axis.
int64_t operandBytes(tile::ContractOp product, bool tf32) {
  auto elementOf = [](Value view) { return cast<tile::ViewType>(view.getType()).getElement(); };
  Type element = elementOf(product.getA());
  if (element != elementOf(product.getB())) return 0;
  if (element.isBF16() || element.isF16()) return 2;
  const bool isKMajor = product.getAAxis() == 1 && product.getBAxis() == 1;
  return element.isF32() && tf32 && isKMajor ? 4 : 0;
}

/// Why Hopper's instructions cannot multiply these operands; empty where they can.
std::string refuseOperands(tile::ContractOp product, const LoweringOptions &options) {
  if (!operandBytes(product, options.tf32))
    return "wgmma multiplies two matrices of bf16 or f16, or of f32 along the contracted axis with tf32";
  const auto type = tile::tileType(product.getResult());
  for (auto [view, axis, positions] : {std::tuple{product.getA(), product.getAAxis(), type.getDimSize(0)},
                                       std::tuple{product.getB(), product.getBAxis(), type.getDimSize(1)}}) {
    if (isWritten(cast<BlockArgument>(rootOf(view)))) return "the kernel writes an operand";
    if (!canCopy(view, axis, positions))
      return "TMA copies whole matrices, in boxes of at most 256 rows or of a multiple of 64 columns";
  }
  return {};
}

/// A plan, or why a kernel or its product is not of that form; the portable lowering serves those.
struct WarpPlanning {
  std::optional<WarpPlan> plan;
  Operation *boxedStore = nullptr;
  std::string refusal;
};
WarpPlanning refused(std::string reason) { return {std::nullopt, nullptr, std::move(reason)}; }

/// As many boxes as there is room for, where a store has any.
void addBoxes(WarpPlan &plan, int64_t sharedLimit) {
  if (plan.boxes == 0) return;
  plan.boxes = kMostBoxes;
  while (plan.boxes > kLeastBoxes && SharedMemory(plan).bytes > sharedLimit)
    --plan.boxes;
}

WarpPlanning planWarps(func::FuncOp kernel, const LoweringOptions &options) {
  constexpr size_t kMostAxes = 2; // that a ProgramOrder knows
  if (!options.hopper) return refused("code for sm_90a and aligned matrices alone have roles");
  if (options.roles == WarpRoles::alike) return refused("asked for");
  if (tile::gridOf(kernel).size() > kMostAxes) return refused("the grid has three axes");
  tile::ContractOp product = onlyProduct(kernel);
  if (!product) return refused("there is not exactly one product of views, in no loop");
  if (std::string refusal = refuseOperands(product, options); !refusal.empty()) return refused(refusal);

  const auto type = tile::tileType(product.getResult());
  const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  const int64_t bytes = operandBytes(product, options.tf32);
  WarpPlan plan{options.roles, options.stages ? options.stages : kStages, rows, columns, kLineBytes / bytes};
  plan.swapsOperands = options.swapsOperands;
  if (options.roles == WarpRoles::automatic) {
    plan.roles = WarpRoles::pingPong;
    if (!rolesFit(plan)) plan.roles = WarpRoles::cooperative;
  }
  if (!rolesFit(plan)) return refused("warpgroups cannot share so large or so odd a tile");

  Operation *boxed = nullptr; // boxes hold rows of a tile, not of its transpose
  if (!plan.swapsOperands) boxed = boxedStore(kernel, product, Layouts(kernel, plan.consumers(options)));
  plan.boxes = boxed ? kLeastBoxes : 0;
  plan.isRequired = options.roles != WarpRoles::automatic;
  plan.replacesSums = !plan.swapsOperands && !product.getPart() && mayReplaceSums(product);
  while (plan.stages > 1 && SharedMemory(plan).bytes > options.sharedLimit)
    --plan.stages;
  if (plan.stages < 2) return refused("shared memory has no room for two stages");
  addBoxes(plan, options.sharedLimit);
  if (!isProducible(kernel, product)) return refused("one warp cannot compute what the product needs");
  if (options.clusterCtas == 2) shareOperand(kernel, product, plan);
  // Products whose left operand does not lie along the contracted axis gain nothing.
  plan.isRanked = plan.clusterCtas > 1 && plan.keepsPace() && product.getAAxis() == 1;
  return {plan, boxed, {}};
}

/// What was asked for and is not done, a remark each.
void remarkOn(func::FuncOp kernel, const WarpPlanning &planning, const LoweringOptions &options) {
  auto remark = [&] { return emitRemark(kernel.getLoc()) << "'" << kernel.getName() << "': "; };
  const std::optional<WarpPlan> &plan = planning.plan;
  if (!plan && options.roles != WarpRoles::alike && (options.hopper || options.roles != WarpRoles::automatic))
    remark() << "all warps of a CTA do the same: " << planning.refusal;
  if (options.clusterCtas == 2 && !plan)
    remark() << "CTAs form no clusters of 2, which only those have whose warps differ";
  if (options.clusterCtas == 2 && plan && plan->clusterCtas != 2)
    remark() << "CTAs form no clusters of 2: neighbours share no operand, or not in equal steps";
  if (plan && options.stages > plan->stages)
    remark() << plan->stages << " stages instead of " << options.stages
             << ": shared memory has no room for more";
}

struct PlanWarpsPass : impl::PlanWarpsBase<PlanWarpsPass> {
  using PlanWarpsBase::PlanWarpsBase;

  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!kernel->hasAttr(tile::kKernelAttr)) return;
    if (failed(checkTiles(kernel))) return signalPassFailure();
    LoweringOptions options;
    options.tf32 = tf32;
    options.stages = stages;
    options.sharedLimit = sharedLimit;
    options.hopper = hopper;
    options.roles = static_cast<WarpRoles>(static_cast<int64_t>(roles));
    options.clusterCtas = clusterCtas;
    options.swapsOperands = swapsOperands;
    const WarpPlanning planning = planWarps(kernel, options);
    remarkOn(kernel, planning, options);
    if (planning.plan)
      setPlan(kernel, *planning.plan, planning.boxedStore);
    else
      setAlike(kernel, planning.refusal);
  }
};

} // namespace

} // namespace tilewright::nvptx

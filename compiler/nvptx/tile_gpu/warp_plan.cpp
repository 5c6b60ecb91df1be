#include "compiler/nvptx/tile_gpu/warp_plan.h"

#include "compiler/dialect/tile_ops.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

namespace tilewright::nvptx {

using namespace mlir;

namespace {

/// A plan's fields but its roles, in the order in which they are printed.
struct NumberField {
  StringRef name;
  int64_t WarpPlan::*field;
};
struct FlagField {
  StringRef name;
  bool WarpPlan::*field;
};
const NumberField kNumbers[] = {{"stages", &WarpPlan::stages},
                                {"stageDepth", &WarpPlan::stageDepth},
                                {"rows", &WarpPlan::rows},
                                {"columns", &WarpPlan::columns},
                                {"clusterCtas", &WarpPlan::clusterCtas},
                                {"clusterAxis", &WarpPlan::clusterAxis},
                                {"boxes", &WarpPlan::boxes}};
const FlagField kFlags[] = {{"replacesSums", &WarpPlan::replacesSums},
                            {"swapsOperands", &WarpPlan::swapsOperands},
                            {"isRanked", &WarpPlan::isRanked},
                            {"isRequired", &WarpPlan::isRequired}};

constexpr StringLiteral kCooperative = "cooperative", kPingPong = "pingPong";

} // namespace

bool operator==(const WarpPlan &a, const WarpPlan &b) {
  return a.roles == b.roles && llvm::all_of(kNumbers, [&](auto &n) { return a.*n.field == b.*n.field; }) &&
         llvm::all_of(kFlags, [&](auto &f) { return a.*f.field == b.*f.field; });
}

llvm::hash_code hash_value(const WarpPlan &plan) {
  llvm::hash_code hash = llvm::hash_value(static_cast<int>(plan.roles));
  for (const NumberField &number : kNumbers)
    hash = llvm::hash_combine(hash, plan.*number.field);
  for (const FlagField &flag : kFlags)
    hash = llvm::hash_combine(hash, plan.*flag.field);
  return hash;
}

// ---- attributes as text ----

void WarpPlanAttr::print(AsmPrinter &printer) const {
  const WarpPlan plan = getPlan(), fresh;
  printer << "<" << (plan.roles == WarpRoles::pingPong ? kPingPong : kCooperative);
  for (const NumberField &number : kNumbers)
    if (plan.*number.field != fresh.*number.field)
      printer << ", " << number.name << " = " << plan.*number.field;
  for (const FlagField &flag : kFlags)
    if (plan.*flag.field) printer << ", " << flag.name;
  printer << ">";
}

/// ", NAME = NUMBER" or ", FLAG", behind the comma.
static ParseResult parseField(AsmParser &parser, WarpPlan &plan) {
  StringRef name;
  const SMLoc location = parser.getCurrentLocation();
  if (parser.parseKeyword(&name)) return failure();
  for (const FlagField &flag : kFlags)
    if (flag.name == name) return plan.*flag.field = true, success();
  for (const NumberField &number : kNumbers)
    if (number.name == name) return failure(parser.parseEqual() || parser.parseInteger(plan.*number.field));
  return parser.emitError(location) << "a plan has no '" << name << "'";
}

Attribute WarpPlanAttr::parse(AsmParser &parser, Type) {
  WarpPlan plan;
  StringRef roles;
  const SMLoc location = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&roles)) return {};
  if (roles != kCooperative && roles != kPingPong) {
    parser.emitError(location) << "expected roles to be " << kCooperative << " or " << kPingPong << ", found "
                               << roles;
    return {};
  }
  if (roles == kPingPong) plan.roles = WarpRoles::pingPong;
  while (succeeded(parser.parseOptionalComma()))
    if (parseField(parser, plan)) return {};
  if (parser.parseGreater()) return {};
  return parser.getChecked<WarpPlanAttr>(location, parser.getContext(), plan);
}

// ---- verifiers ----

LogicalResult WarpPlanAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, WarpPlan plan) {
  auto expected = [&](const Twine &what, int64_t found) {
    return emitError() << "expected " << what << ", found " << found;
  };
  if (plan.stages < 2) return expected("at least two stages", plan.stages);
  const std::string left = plan.swapsOperands ? "columns" : "rows",
                    right = plan.swapsOperands ? "rows" : "columns";
  if (plan.left() < 64 || plan.left() % 64) return expected(left + " in multiples of 64", plan.left());
  if (plan.right() < 8 || plan.right() % 8 || plan.right() > 256)
    return expected("8 to 256 " + right + " in multiples of 8", plan.right());
  if (plan.stageDepth != 32 && plan.stageDepth != 64)
    return expected("stages 32 or 64 deep", plan.stageDepth);
  if (plan.clusterCtas != 1 && plan.clusterCtas != 2)
    return expected("clusters of 1 or 2 CTAs", plan.clusterCtas);
  if (plan.clusterAxis != 0 && plan.clusterAxis != 1)
    return expected("a cluster along axis 0 or 1 of the grid", plan.clusterAxis);
  if (plan.boxes < 0 || plan.boxes == 1) return expected("no boxes, or two and more", plan.boxes);
  return success();
}

// ---- on a kernel ----

std::optional<WarpPlan> planOf(func::FuncOp kernel) {
  if (auto plan = kernel->getAttrOfType<WarpPlanAttr>(kWarpsAttr)) return plan.getPlan();
  return {};
}

Operation *boxedStoreOf(func::FuncOp kernel) {
  Operation *found = nullptr;
  kernel.walk([&](Operation *op) {
    if (op->hasAttr(kBoxedAttr)) found = op;
  });
  return found;
}

void setPlan(func::FuncOp kernel, const WarpPlan &plan, Operation *boxed) {
  kernel->setAttr(kWarpsAttr, WarpPlanAttr::get(kernel.getContext(), plan));
  if (boxed) boxed->setAttr(kBoxedAttr, UnitAttr::get(kernel.getContext()));
}

void setAlike(func::FuncOp kernel, StringRef reason) {
  kernel->setAttr(kWarpsAttr, AlikeAttr::get(kernel.getContext(), reason));
  if (Operation *boxed = boxedStoreOf(kernel)) boxed->removeAttr(kBoxedAttr);
}

} // namespace tilewright::nvptx

#include "compiler/cpu/nest_plan.h"

namespace tilewright::cpu {

using namespace mlir;

bool NestPlan::contains(Operation *reduce) const {
  return llvm::any_of(sinks, [&](const Sink &sink) { return sink.op == reduce; });
}

namespace {

using OpSet = llvm::SmallPtrSet<Operation *, 32>;

/// Whether something outside `cluster` needs `value`, through ops that are evaluated where they are needed.
bool isNeededOutside(Value value, const OpSet &cluster) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isFree(user) ? isNeededOutside(user->getResult(0), cluster) : !cluster.contains(user);
  });
}

class Planner {
public:
  Planner(const FunctionLowering &lowering, ArrayRef<Operation *> cluster)
      : lowering(lowering), cluster(cluster), members(cluster.begin(), cluster.end()) {}

  SmallVector<NestPlan> run() {
    for (Operation *op : cluster) {
      if (isa<tile::ReduceOp>(op))
        place({Sink::Kind::reduce, op, op->getOperand(0)});
      else if (op->getNumResults() == 0)
        place({Sink::Kind::store, op, op->getOperand(0)});
      if (op->getNumResults() == 1 && isNeededOutside(op->getResult(0), members))
        place({Sink::Kind::materialise, nullptr, op->getResult(0)});
    }
    shareAcrossNests();
    return std::move(nests);
  }

private:
  void place(Sink sink) {
    // A reduction along the rows is materialised as it is made.
    if (sink.kind == Sink::Kind::materialise && isReduceAlongRows(sink.value.getDefiningOp())) return;
    auto type = tileType(sink.value);
    if (nests.empty() || !fits(sink, nests.back())) {
      nests.emplace_back();
      nests.back().rows = type.getDimSize(0);
    }
    nests.back().columns = std::max(nests.back().columns, type.getDimSize(1));
    nests.back().sinks.push_back(sink);
  }

  static bool isReduceAlongRows(Operation *op) {
    auto reduce = dyn_cast_or_null<tile::ReduceOp>(op);
    return reduce && reduce.getAxis() == 0;
  }

  bool fits(const Sink &sink, const NestPlan &nest) const {
    auto type = tileType(sink.value);
    bool sameColumns = nest.columns == 1 || type.getDimSize(1) == 1 || nest.columns == type.getDimSize(1);
    return type.getDimSize(0) == nest.rows && sameColumns && !dependsOnReduceAlongRows(sink.value, nest) &&
           (!sink.op || llvm::none_of(sink.op->getOperands(), [&](Value operand) {
             return tileType(operand) && dependsOnReduceAlongRows(operand, nest);
           }));
  }

  /// A sum over a nest's rows is complete only behind it.
  bool dependsOnReduceAlongRows(Value value, const NestPlan &nest) const {
    OpSet seen;
    SmallVector<Value> open{value};
    while (!open.empty()) {
      const Value next = open.pop_back_val();
      Operation *op = next.getDefiningOp();
      if (!op || lowering.buffer(next) || !(isFree(op) || members.contains(op))) continue;
      if (!seen.insert(op).second) continue;
      if (isReduceAlongRows(op) && nest.contains(op)) return true;
      llvm::copy_if(op->getOperands(), std::back_inserter(open),
                    [](Value operand) { return bool(tileType(operand)); });
    }
    return false;
  }

  void shareAcrossNests() {
    for (size_t number = 0; number < nests.size(); ++number)
      for (const Sink &sink : nests[number].sinks)
        if (sink.kind == Sink::Kind::reduce) owner[sink.op->getResult(0)] = number;
    for (size_t number = 0; number < nests.size(); ++number)
      for (const Sink &sink : SmallVector<Sink>(nests[number].sinks)) {
        SmallVector<Value> needed{sink.value};
        if (sink.op)
          for (Value operand : sink.op->getOperands())
            if (tileType(operand)) needed.push_back(operand);
        for (Value value : needed)
          claim(value, number);
      }
  }

  /// Notes that nest `number` evaluates `value`; what an earlier nest evaluates too is kept by that one.
  void claim(Value value, size_t number) {
    Operation *op = value.getDefiningOp();
    if (!op || lowering.buffer(value) || !(isFree(op) || members.contains(op))) return;
    if (!isFree(op)) {
      auto [first, isNew] = owner.try_emplace(value, number);
      if (first->second < number) return keep(value, nests[first->second]);
      if (!isNew) return; // by this nest already, or a reduction, whose operand is claimed by its sink
    }
    for (Value operand : op->getOperands())
      if (tileType(operand)) claim(operand, number);
  }

  void keep(Value value, NestPlan &nest) {
    bool isKept = isReduceAlongRows(value.getDefiningOp()) || llvm::any_of(nest.sinks, [&](const Sink &sink) {
                    return sink.kind == Sink::Kind::materialise && sink.value == value;
                  });
    if (!isKept) nest.sinks.push_back({Sink::Kind::materialise, nullptr, value});
  }

  const FunctionLowering &lowering;
  ArrayRef<Operation *> cluster;
  OpSet members;
  SmallVector<NestPlan> nests;
  DenseMap<Value, size_t> owner; ///< the first nest that evaluates a value
};

} // namespace

SmallVector<NestPlan> planNests(const FunctionLowering &lowering, ArrayRef<Operation *> cluster) {
  return Planner(lowering, cluster).run();
}

} // namespace tilewright::cpu

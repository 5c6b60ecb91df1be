// Copies by the tensor memory accelerator and products by wgmma, both on 128-byte swizzled shared memory.

#include "compiler/nvptx/hopper/wgmma_product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::nvptx {

using namespace mlir;

namespace {

constexpr int64_t kPanelBytes = 64 * kLineBytes, kGroupBytes = 8 * kLineBytes; // 64 lines, 8 lines

/// A policy of the second-level cache, as `createpolicy` makes it. It asks for the default; but a product
/// whose copies name it takes 1 % less time on an H200 than without (1.004 and 1.014 of cuBLAS's, medians of
/// two).
constexpr int64_t kEvictNormal = int64_t(1) << 60;

/// "f,f,…" or "0,1,…"
std::string list(int64_t count, llvm::function_ref<std::string(int64_t)> item) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += (i ? "," : "") + item(i);
  return text;
}

} // namespace

void StagedOperand::copy(Emitter &e, Num stage, Num k, Num barrier) const {
  const bool isShared = shares > 1;
  const int64_t boxes = depthIsMinor ? 1 : positions / 64 / shares,
                boxPositions = depthIsMinor ? boxRows() : 64;
  const Value hint = e.i64(kEvictNormal).value;
  const Value to = isShared ? e.number(e.b.getIntegerType(16), (1 << shares) - 1).value : Value();
  Num skipped = isShared ? share * (boxes * boxPositions) : e.i32(0); // positions of other CTAs' shares
  for (int64_t box = 0; box < boxes; ++box) {
    Num first = skipped + box * boxPositions, along = e.narrow(offset) + first, deep = e.narrow(k);
    Num column = depthIsMinor ? deep : along, row = depthIsMinor ? along : deep;
    e.b.create<NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp>(
        e.sharedPointer(stage + first * kLineBytes), map, ValueRange{column.value, row.value},
        e.sharedPointer(barrier), /*im2colOffsets=*/ValueRange(), to, hint, /*predicate=*/Value());
  }
}

void StagedOperand::clearDepth(Emitter &e, Num stage, Num live) const {
  depthIsMinor ? clearLineEnds(e, stage, live) : clearLines(e, stage, live);
}

/// A thread has whole lines, whose elements it clears one by one: this is done once a program at most.
void StagedOperand::clearLineEnds(Emitter &e, Num stage, Num live) const {
  const int64_t bytes = kLineBytes / depth; // of an element
  const Value zero = e.number(e.b.getIntegerType(8 * bytes), 0).value;
  auto loop = [&](Num begin, int64_t end, int64_t step, llvm::function_ref<void(Num)> body) {
    auto op = e.b.create<scf::ForOp>(begin.value, e.i32(end).value, e.i32(step).value);
    e.inside(op.getBody(), [&] { body(e.num(op.getInductionVar())); });
  };
  loop(e.thread(), positions, e.teamThreads, [&](Num line) {
    loop(live, depth, 1, [&](Num element) {
      Num at = element * bytes, chunk = (at >> 4) ^ (line & 7);
      e.storeShared(stage + line * kLineBytes + chunk * 16 + (at & 15), 0, {zero});
    });
  });
}

void StagedOperand::clearLines(Emitter &e, Num stage, Num live) const {
  Num begin = live * kLineBytes + e.thread() * 16;
  const Value zero = e.i32(0).value;
  for (int64_t panel = 0; panel < positions / 64; ++panel) {
    auto loop = e.b.create<scf::ForOp>(e.toIndex(e.wide(begin)), e.toIndex(e.i64(kPanelBytes)),
                                       e.toIndex(e.i64(e.teamThreads * 16)));
    e.inside(loop.getBody(), [&] {
      Num at = e.narrow(e.fromIndex(loop.getInductionVar()));
      e.storeShared(stage + panel * kPanelBytes + at, 0, {zero, zero, zero, zero});
    });
  }
}

/// Fields of a descriptor's low half: address / 16; from bit 16 on, the distance / 16 of panels along the
/// free axis. Only that half differs from one block of an operand to another.
Num StagedOperand::descriptor(Num stage) const {
  const int64_t panelStep = depthIsMinor ? 1 : kPanelBytes / 16; // means nothing where there is one panel
  Num place = (stage >> 4) & 0x3FFF; // in a cluster, higher bits of an address are the CTA's number
  return place + (panelStep << 16);
}

/// A quarter is 32 bytes of each line, or 16 lines.
int64_t StagedOperand::descriptorStep(int64_t positions, int64_t quarters) const {
  return (positions * kLineBytes + quarters * (depthIsMinor ? 32 : 16 * kLineBytes)) / 16;
}

void addStage(Emitter &e, const StagedOperand &left, const StagedOperand &right, Type element, Num leftStage,
              Num rightStage, int64_t rowsBetween, Accumulators &sums, std::optional<Num> adds) {
  SmallVector<Value> operands;
  for (auto &values : sums)
    operands.append(values);
  const int64_t block = sums[0].size(), count = operands.size();
  operands.append({left.descriptor(leftStage).value, right.descriptor(rightStage).value});
  if (adds) operands.push_back(adds->value);

  // High half: the distance / 16 of groups of 8 lines, and the 128-byte swizzle (bit 62 of all).
  const std::string high = std::to_string(kGroupBytes / 16 | int64_t(1) << 30);
  auto describe = [&](const char *name, int64_t operand, int64_t step) {
    return "add.s32 low, $" + std::to_string(operand) + ", " + std::to_string(step) + ";\n\tmov.b64 " + name +
           ", {low, " + high + "};\n\t";
  };
  const std::string type = element.isF32() ? "tf32" : element.isBF16() ? "bf16" : "f16";
  const std::string instruction = "wgmma.mma_async.sync.aligned.m64n" +
                                  std::to_string(2 * block) + // in 128 threads
                                  (element.isF32() ? "k8" : "k16") + ".f32." + type + "." + type + " {";
  // TF32 is multiplied K-major only.
  const std::string majors =
      element.isF32() ? ""
                      : std::string(left.depthIsMinor ? ", 0" : ", 1") + (right.depthIsMinor ? ", 0" : ", 1");
  std::string text =
      "{ .reg .pred adds; .reg .b32 low; .reg .b64 left, right;\n\tsetp.eq.b32 adds, 0, 0;\n\t";
  if (adds)
    text += ".reg .pred addsFirst;\n\tsetp.ne.b32 addsFirst, $" + std::to_string(2 * count + 2) + ", 0;\n\t";
  for (int64_t quarter = 0; quarter < 4; ++quarter)
    for (int64_t first = 0; first < count; first += block)
      text += describe("left", 2 * count, left.descriptorStep(first / block * rowsBetween, quarter)) +
              describe("right", 2 * count + 1, right.descriptorStep(0, quarter)) + instruction +
              list(block, [&](int64_t i) { return "$" + std::to_string(first + i); }) + "}, left, right, " +
              (adds && quarter == 0 ? "addsFirst" : "adds") + ", 1, 1" + majors + ";\n\t";
  const std::string constraints = list(count, [](int64_t) { return "=f"; }) + "," +
                                  list(count, [](int64_t i) { return std::to_string(i); }) + ",r,r" +
                                  (adds ? ",r" : "");
  auto added = e.ptx(SmallVector<Type>(count, e.b.getF32Type()), text + "}", constraints, operands, true);
  for (auto [i, value] : llvm::enumerate(added))
    sums[i / block][i % block] = value;
}

void fenceProducts(Emitter &e) { e.b.create<NVVM::WgmmaFenceAlignedOp>(); }
void commitProducts(Emitter &e) { e.b.create<NVVM::WgmmaGroupSyncAlignedOp>(); }
void waitForProducts(Emitter &e, int64_t underWay) { e.b.create<NVVM::WgmmaWaitGroupSyncOp>(underWay); }

/// The numbers pass through the wait, lest a use of them move before it.
void waitForProducts(Emitter &e, Accumulators &sums) {
  SmallVector<Value> all;
  for (auto &values : sums)
    all.append(values);
  const int64_t count = all.size();
  const std::string constraints = list(count, [](int64_t) { return "=f"; }) + "," +
                                  list(count, [](int64_t i) { return std::to_string(i); }) + ",~{memory}";
  auto done = e.ptx(SmallVector<Type>(count, e.b.getF32Type()), "wgmma.wait_group.sync.aligned 0;",
                    constraints, all, true);
  size_t next = 0;
  for (auto &values : sums)
    for (Value &value : values)
      value = done[next++];
}

} // namespace tilewright::nvptx

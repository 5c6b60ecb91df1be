#include "compiler/nvptx/ptx/wgmma.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;

namespace {

constexpr int64_t kGroupBytes = 8 * kLineBytes; // 8 lines
constexpr int64_t kInstructions = 4;            // to a line's depth
constexpr int64_t kWords = 4;                   // of a left operand in registers

/// "f,f,…" or "0,1,…"
std::string list(int64_t count, llvm::function_ref<std::string(int64_t)> item) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += (i ? "," : "") + item(i);
  return text;
}

std::string operandAt(int64_t number) { return "$" + std::to_string(number); }

SmallVector<Value> flat(const Accumulators &sums) {
  SmallVector<Value> all;
  for (auto &values : sums)
    all.append(values);
  return all;
}

void setFlat(Accumulators &sums, ValueRange all) {
  for (auto &values : sums) {
    values.assign(all.begin(), all.begin() + values.size());
    all = all.drop_front(values.size());
  }
}

/// One statement: instructions whose sums stay in place.
class ProductStatement {
public:
  ProductStatement(const WgmmaLeft &left, const WgmmaOperand &right, Type element, const Accumulators &sums)
      : left(left), right(right), element(element), block(sums[0].size()), count(block * sums.size()),
        operands(flat(sums)) {
    leftAt = count;
    if (left.shared) operands.push_back(left.shared->descriptor().value);
    for (auto &ofList : left.fragments)
      for (auto &words : ofList)
        operands.append(words);
    rightAt = operands.size();
    operands.push_back(right.descriptor().value);
  }

  SmallVector<Value> emit(Emitter &e, std::optional<Num> adds) {
    std::string text =
        "{ .reg .pred adds; .reg .b32 low; .reg .b64 left, right;\n\tsetp.eq.b32 adds, 0, 0;\n\t";
    if (adds) {
      operands.push_back(adds->value);
      text += ".reg .pred addsFirst;\n\tsetp.ne.b32 addsFirst, " + resultOrOperand(rightAt + 1) + ", 0;\n\t";
    }
    for (int64_t instruction = 0; instruction < kInstructions; ++instruction)
      for (int64_t number = 0; number < count / block; ++number)
        text += one(number, instruction, adds && instruction == 0 ? "addsFirst" : "adds");
    const std::string constraints = list(count, [](int64_t) { return "=f"; }) + "," +
                                    list(count, [](int64_t i) { return std::to_string(i); }) + "," +
                                    list(operands.size() - count, [](int64_t) { return std::string("r"); });
    return e.ptx(SmallVector<Type>(count, e.b.getF32Type()), text + "}", constraints, operands, true);
  }

private:
  /// The statement's results are numbered ahead of its operands.
  std::string resultOrOperand(int64_t operand) const { return operandAt(count + operand); }

  /// High half: the distance / 16 of groups of 8 lines, and the 128-byte swizzle (bit 62 of all).
  std::string describe(const char *name, int64_t operand, int64_t step) const {
    const std::string high = std::to_string(kGroupBytes / 16 | int64_t(1) << 30);
    return "add.s32 low, " + resultOrOperand(operand) + ", " + std::to_string(step) + ";\n\tmov.b64 " + name +
           ", {low, " + high + "};\n\t";
  }

  std::string one(int64_t number, int64_t instruction, const char *adds) const {
    const std::string type = element.isF32() ? "tf32" : element.isBF16() ? "bf16" : "f16";
    const std::string name = "wgmma.mma_async.sync.aligned.m64n" +
                             std::to_string(2 * block) + // by 128 threads
                             (element.isF32() ? "k8" : "k16") + ".f32." + type + "." + type;
    const std::string sums = list(block, [&](int64_t i) { return operandAt(number * block + i); });
    std::string text, leftText = "left", majors;
    if (left.shared) {
      text = describe("left", leftAt, left.shared->descriptorStep(number * left.rowsBetween, instruction));
      majors = left.shared->depthIsMinor ? ", 0" : ", 1";
    } else {
      const int64_t first = leftAt + (number * kInstructions + instruction) * kWords;
      leftText = "{" + list(kWords, [&](int64_t i) { return resultOrOperand(first + i); }) + "}";
    }
    majors += right.depthIsMinor ? ", 0" : ", 1";
    if (element.isF32()) majors.clear(); // TF32 is multiplied K-major only
    return text + describe("right", rightAt, right.descriptorStep(0, instruction)) + name + " {" + sums +
           "}, " + leftText + ", right, " + adds + ", 1, 1" + majors + ";\n\t";
  }

  const WgmmaLeft &left;
  const WgmmaOperand &right;
  Type element;
  int64_t block, count; ///< sums of a list, and of all
  SmallVector<Value> operands;
  int64_t leftAt = 0, rightAt = 0;
};

} // namespace

/// Fields of a descriptor's low half: address / 16; from bit 16 on, the distance / 16 of panels along the
/// free axis. Only that half differs from one block of an operand to another.
Num WgmmaOperand::descriptor() const {
  const int64_t panelStep = depthIsMinor ? 1 : panelBytes / 16; // means nothing where there is one panel
  Num place = (begin >> 4) & 0x3FFF; // in a cluster, higher bits of an address are the CTA's number
  return place + (panelStep << 16);
}

/// The depths of an instruction are 32 bytes of each line, or 16 lines.
int64_t WgmmaOperand::descriptorStep(int64_t positions, int64_t instructions) const {
  const int64_t further = depthIsMinor ? positions * kLineBytes : positions / 64 * panelBytes;
  return (further + instructions * (depthIsMinor ? 32 : 16 * kLineBytes)) / 16;
}

/// A register's list, and its place there.
static std::pair<int64_t, int64_t> placeOf(int64_t row, int64_t column) {
  return {row / 2, column / 2 * 4 + row % 2 * 2 + column % 2};
}

SmallVector<Value> byRows(const Accumulators &sums) {
  const int64_t columns = sums[0].size() / 2;
  SmallVector<Value> registers;
  for (int64_t row = 0; row < 2 * int64_t(sums.size()); ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const auto [block, i] = placeOf(row, column);
      registers.push_back(sums[block][i]);
    }
  return registers;
}

SmallVector<Value> byColumns(const Accumulators &sums) {
  const SmallVector<Value> rows = byRows(sums);
  const size_t columns = sums[0].size() / 2;
  SmallVector<Value> registers;
  for (size_t column = 0; column < columns; ++column)
    for (size_t i = column; i < rows.size(); i += columns)
      registers.push_back(rows[i]);
  return registers;
}

Accumulators fromRows(ValueRange registers, int64_t columns) {
  const int64_t rows = registers.size() / columns;
  Accumulators sums(rows / 2, SmallVector<Value>(2 * columns));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const auto [block, i] = placeOf(row, column);
      sums[block][i] = registers[row * columns + column];
    }
  return sums;
}

void addProducts(Emitter &e, const WgmmaLeft &left, const WgmmaOperand &right, Type element,
                 Accumulators &sums, std::optional<Num> adds) {
  setFlat(sums, ProductStatement(left, right, element, sums).emit(e, adds));
}

void fenceProducts(Emitter &e) { e.b.create<NVVM::WgmmaFenceAlignedOp>(); }
void commitProducts(Emitter &e) { e.b.create<NVVM::WgmmaGroupSyncAlignedOp>(); }
void waitForProducts(Emitter &e, int64_t underWay) { e.b.create<NVVM::WgmmaWaitGroupSyncOp>(underWay); }

/// The numbers pass through the wait, lest a use of them move before it.
void waitForProducts(Emitter &e, Accumulators &sums) {
  const SmallVector<Value> all = flat(sums);
  const int64_t count = all.size();
  const std::string constraints = list(count, [](int64_t) { return "=f"; }) + "," +
                                  list(count, [](int64_t i) { return std::to_string(i); }) + ",~{memory}";
  setFlat(sums, e.ptx(SmallVector<Type>(count, e.b.getF32Type()), "wgmma.wait_group.sync.aligned 0;",
                      constraints, all, true));
}

} // namespace tilewright::nvptx

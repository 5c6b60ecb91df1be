#include "compiler/cpu/amx_tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::cpu {

using namespace mlir;

// Registers: sums of row tile r and column tile g, then the tiles of the left and of the right operand.
static int64_t sumsRegister(int64_t r, int64_t g) { return 2 * r + g; }
static int64_t leftRegister(int64_t r) { return 4 + r; }
static int64_t rightRegister(int64_t g) { return 6 + g; }

void AmxTiles::call(const char *intrinsic, ValueRange arguments) {
  b.create<LLVM::CallIntrinsicOp>(TypeRange(), b.getStringAttr(intrinsic), arguments);
}

Value AmxTiles::tile(int64_t number) { return b.create<arith::ConstantIntOp>(number, 8); }
Value AmxTiles::bytes(int64_t count) { return b.create<arith::ConstantIntOp>(count, 64); }

void AmxTiles::load(int64_t number, Value from, int64_t stride) {
  call("llvm.x86.tileloadd64", {tile(number), from, bytes(4 * stride)});
}

/// 64 bytes: the palette, which is 1; from byte 16 on, each tile's bytes a row, of 16 bits; from byte 48 on,
/// its rows, of 8 bits.
void AmxTiles::configure() {
  SmallVector<int32_t> words(16);
  words[0] = 1;
  for (int pair = 0; pair < 4; ++pair)
    words[4 + pair] = 0x00400040;
  words[12] = words[13] = 0x10101010;
  e.store(scratch, b.create<arith::ConstantOp>(b.getI32VectorAttr(words)));
  call("llvm.x86.ldtilecfg", {scratch});
}

void AmxTiles::release() { call("llvm.x86.tilerelease", {}); }

void AmxTiles::multiply(int64_t rowTiles, Value left, int64_t leftStride, Value right, Value units,
                        Value sums, int64_t sumsStride) {
  const Type unit = b.getI32Type();
  for (int64_t r = 0; r < rowTiles; ++r)
    for (int64_t g = 0; g < 2; ++g)
      call("llvm.x86.tilezero", {tile(sumsRegister(r, g))});
  e.loop(e.index(0), units, e.index(kUnits), [&](Value at) {
    const Value leftStep = e.address(left, at, unit);
    const Value rightStep = e.address(right, e.mul(at, e.index(kMicroColumns)), unit);
    for (int64_t r = 0; r < rowTiles; ++r)
      load(leftRegister(r), e.address(leftStep, e.index(r * kRows * leftStride), unit), leftStride);
    for (int64_t g = 0; g < 2; ++g) {
      load(rightRegister(g), e.address(rightStep, e.index(g * kColumns), unit), kMicroColumns);
      for (int64_t r = 0; r < rowTiles; ++r)
        call("llvm.x86.tdpbf16ps", {tile(sumsRegister(r, g)), tile(leftRegister(r)), tile(rightRegister(g))});
    }
  });
  for (int64_t r = 0; r < rowTiles; ++r)
    for (int64_t g = 0; g < 2; ++g) {
      const Value place =
          e.address(scratch, e.index(r * kRows * kMicroColumns + g * kColumns), b.getF32Type());
      call("llvm.x86.tilestored64", {tile(sumsRegister(r, g)), place, bytes(4 * kMicroColumns)});
    }
  addTo(sums, sumsStride, rowTiles * kRows);
}

/// Two short sums round less than a long one: what a step of the contracted axis gave is added here.
void AmxTiles::addTo(Value sums, int64_t sumsStride, int64_t rows) {
  const Type f32 = b.getF32Type();
  e.loop(e.index(0), e.index(rows), e.index(1), [&](Value row) {
    for (int64_t column = 0; column < kMicroColumns; column += e.machine.lanes) {
      const Value from = e.address(scratch, e.add(e.mul(row, e.index(kMicroColumns)), e.index(column)), f32);
      const Value to = e.address(sums, e.add(e.mul(row, e.index(sumsStride)), e.index(column)), f32);
      const Value total =
          b.create<arith::AddFOp>(e.load(to, f32, e.machine.lanes), e.load(from, f32, e.machine.lanes));
      e.store(to, total);
    }
  });
}

} // namespace tilewright::cpu

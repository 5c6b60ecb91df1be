#include "compiler/nvptx/hopper/pace.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::nvptx {

using namespace mlir;

namespace {

constexpr const char *kSlots = "pace_slots"; ///< of two words: segments, CTAs that have left
constexpr int64_t kSlotBits = 6, kSlotBytes = 8;
constexpr int64_t kSegment = 2;      ///< stages; within 8 of each other, CTAs read half more from memory
constexpr int64_t kMostPolls = 1000; ///< about as many microseconds
constexpr int64_t kFree = 1 << 22;   ///< segments, more than a program has
// Bytes of both operands up to which there is no pace. On an H100 with dX in tiles of 128×128, 1024×2048×8192
// took 0.241 ms in pace and 0.223 without, 256×1024×32768 0.1625 and 0.162; in larger ones 2048×2048×50304
// took 2.00 and 1.99 ms (`tilewright bench --dtype bf16 --against cublas`, 2026-11-26).
constexpr int64_t kSmall = int64_t(128) << 20;
// The same of the left operand alone. Without pace the loss alone of 256×2048×128256, whose X has 1 MiB, took
// three H200s 0.992, 0.995 and 0.993 of the time; of 2048×2048×50304 and 1000×4096×128256, whose X have 8,
// one H200 0.997 and 1.003; of 4096×4096×128256 one 1.021 (from PyTorch beside cuBLAS's product, 2026-11-28).
constexpr int64_t kSmallLeft = int64_t(4) << 20;

Num bytesOfView(Lowering &lowering, Value view) {
  const MemoryView &memory = lowering.view(rootOf(view));
  return memory.sizes[0] * memory.sizes[1] * bytesOf(memory.element);
}

} // namespace

void Pace::declare(ModuleOp module) {
  if (module.lookupSymbol(kSlots)) return;
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto type = LLVM::LLVMArrayType::get(b.getI32Type(), (kSlotBytes / 4) << kSlotBits);
  auto slots = b.create<LLVM::GlobalOp>(module.getLoc(), type, /*isConstant=*/false, LLVM::Linkage::Internal,
                                        kSlots, Attribute(), /*alignment=*/8, /*addrSpace=*/1);
  OpBuilder inside = OpBuilder::atBlockBegin(&slots.getInitializerRegion().emplaceBlock());
  Value zero = inside.create<LLVM::ZeroOp>(module.getLoc(), type);
  inside.create<LLVM::ReturnOp>(module.getLoc(), zero);
}

OperandSharing::OperandSharing(Lowering &lowering, tile::ContractOp product) {
  Emitter &e = lowering.emitter();
  const Num left = bytesOfView(lowering, product.getA()), right = bytesOfView(lowering, product.getB());
  const Value areLarge = e.i64(kSmall) < left + right;
  byMany = e.both(areLarge, e.i64(kSmallLeft) < left);
  byNeighbours = e.both(areLarge, left < kSmallLeft + 1);
}

Pace::Pace(Lowering &lowering, Value isKept)
    : e(lowering.emitter()), isKept(isKept), slot(e.i64(0)),
      ctas(e.num(e.b.create<NVVM::GridDimXOp>(e.b.getI32Type()))),
      due(e, 0) { // of the first segment; from the second on, all have begun the one before
  Num output = lowering.view(*llvm::find_if(lowering.function().getArguments(), isWritten)).pointer;
  Value slots = e.b.create<LLVM::AddressOfOp>(LLVM::LLVMPointerType::get(e.b.getContext(), 1), kSlots);
  // Allocations differ in bits from 8 on; those of one buffer's rows in higher ones.
  Num number = ((output >> 8) ^ (output >> 14) ^ (output >> 20)) & ((1 << kSlotBits) - 1);
  slot = e.num(e.b.create<LLVM::PtrToIntOp>(e.b.getI64Type(), slots)) + number * kSlotBytes;
}

void Pace::keep(Num step) {
  Value begins = e.both(isKept, (step & (kSegment - 1)) == 0);
  auto isFirst = e.b.create<scf::IfOp>(begins, /*withElseRegion=*/false);
  e.inside(isFirst.thenBlock(), [&] {
    Num wanted = due.get();
    // Sums wrap, so that differences are what tells.
    auto polls = e.ptx(e.b.getI32Type(),
                       "{ .reg .pred over; .reg .s32 sum;\n\t"
                       "mov.u32 $0, " +
                           std::to_string(kMostPolls) +
                           ";\n\t"
                           "atom.relaxed.gpu.global.add.u32 sum, [$1], 1;\n\t"
                           "again: sub.s32 sum, sum, $2;\n\t"
                           "setp.ge.s32 over, sum, 0;\n\t"
                           "@over bra done;\n\t"
                           "sub.u32 $0, $0, 1;\n\t"
                           "setp.eq.u32 over, $0, 0;\n\t"
                           "@over bra done;\n\t"
                           "nanosleep.u32 100;\n\t"
                           "ld.relaxed.gpu.global.u32 sum, [$1];\n\t"
                           "bra again;\n\t"
                           "done: }",
                       "=r,l,r,~{memory}", {slot.value, wanted.value}, true);
    due.set(e.choose(e.num(polls[0]) == 0, e.i32(-(int64_t(1) << 30)), wanted + ctas));
  });
}

void Pace::leave() {
  auto counted = e.b.create<scf::IfOp>(isKept, /*withElseRegion=*/false);
  e.inside(counted.thenBlock(), [&] {
    e.ptx({},
          "{ .reg .pred last; .reg .u32 left;\n\t"
          "red.relaxed.gpu.global.add.u32 [$0], " +
              std::to_string(kFree) +
              ";\n\t"
              "fence.acq_rel.gpu;\n\t"
              "atom.relaxed.gpu.global.inc.u32 left, [$0+4], $1;\n\t" // wraps, and so clears itself
              "setp.eq.u32 last, left, $1;\n\t"
              "@last st.relaxed.gpu.global.u32 [$0], 0; }",
          "l,r,~{memory}", {slot.value, (ctas - 1).value}, true);
  });
}

} // namespace tilewright::nvptx

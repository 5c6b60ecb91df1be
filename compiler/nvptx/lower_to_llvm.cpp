#include "compiler/nvptx/passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace tilewright::nvptx {

using namespace mlir;

#define GEN_PASS_DEF_LOWERTOLLVM
#include "compiler/nvptx/passes.h.inc"

namespace {

/// Whether LLVM has an intrinsic for an operation of NVVM. The others become inline PTX.
bool isIntrinsic(Operation *op) {
  auto ptx = dyn_cast<NVVM::BasicPtxBuilderInterface>(op);
  return !ptx || ptx.hasIntrinsic();
}

struct LowerToLlvm : impl::LowerToLlvmBase<LowerToLlvm> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    LLVMTypeConverter types(context);
    RewritePatternSet patterns(context);
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    arith::populateArithToLLVMConversionPatterns(types, patterns);
    populateMathToLLVMConversionPatterns(types, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
    populateFuncToLLVMConversionPatterns(types, patterns);
    populateNVVMToLLVMConversionPatterns(patterns);
    LLVMConversionTarget target(*context);
    target.addLegalOp<ModuleOp>();
    target.addDynamicallyLegalDialect<NVVM::NVVMDialect>(isIntrinsic);
    if (failed(applyFullConversion(getOperation(), target, std::move(patterns)))) signalPassFailure();
  }
};

} // namespace
} // namespace tilewright::nvptx

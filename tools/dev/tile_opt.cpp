// Runs passes by hand on a file of IR: tile-opt x.mlir --canonicalize.

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

#include "compiler/cpu/passes.h"
#include "compiler/dialect/tile_ops.h"
#include "compiler/nvptx/passes.h"
#include "compiler/passes/passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry dialects;
  dialects.insert<tilewright::tile::TileDialect, tilewright::nvptx::TileGpuDialect, mlir::arith::ArithDialect,
                  mlir::cf::ControlFlowDialect, mlir::func::FuncDialect, mlir::LLVM::LLVMDialect,
                  mlir::NVVM::NVVMDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::tensor::TensorDialect, mlir::vector::VectorDialect>();
  mlir::registerTransformsPasses();
  mlir::registerConversionPasses();
  tilewright::registerTilePasses();
  tilewright::cpu::registerCpuPasses();
  tilewright::nvptx::registerNvptxPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Tilewright's passes\n", dialects));
}

#include "compiler/cpu/emit_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// LLVM's own handler of such an error ends the process.
TEST(EmitObject, WhatLlvmRefusesIsACompileError) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::LLVM::LLVMDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    llvm.func @bad(%slots: !llvm.ptr, %id: !llvm.ptr, %scratch: !llvm.ptr) {
      %0 = llvm.inline_asm has_side_effects "", "={nonsense}" : () -> i64
      llvm.return
    })",
                                                        &context);
  ASSERT_TRUE(module);
  const Status status = cpu::emitObject(*module, hostTarget(), 2, cpu::Output::object).status();
  EXPECT_EQ(status.kind(), StatusKind::compile);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("code generator"), HasSubstr("nonsense")));
}

} // namespace
} // namespace tilewright

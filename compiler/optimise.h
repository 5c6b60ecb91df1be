#pragma once

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace tilewright {

/// LLVM's standard passes for a level of 0 to 3, without vectorising and unrolling: kernels come as they
/// should be in that respect.
void optimise(llvm::Module &module, llvm::TargetMachine &machine, int level);

} // namespace tilewright

#pragma once

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace tilewright {

/// LLVM's standard passes for a level of 0 to 3, without vectorising and unrolling: kernels come as they
/// should be in that respect.
void optimise(llvm::Module &module, llvm::TargetMachine &machine, int level);

/// The few of them that code for a GPU gains by, in less than half of the time: what ptxas makes of it has as
/// many registers, and differs by one or two instructions in a hundred, either way. Kernels that `multiply`
/// get a few more: theirs was timed with them.
void optimiseForGpu(llvm::Module &module, llvm::TargetMachine &machine, bool multiplies);

} // namespace tilewright

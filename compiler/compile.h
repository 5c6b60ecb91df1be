#pragma once

#include <string>

#include "compiler/artifact.h"
#include "compiler/base/env.h"
#include "compiler/base/status.h"
#include "compiler/dsl/builder.h"
#include "compiler/options.h"
#include "compiler/target.h"

namespace tilewright {

/// False in a library that was linked with no_compiler.cpp: the functions below then return a user error.
bool hasCompiler();

/// DSL to artifact. Every call has an MLIR context of its own, so calls from several threads run side by
/// side. A mistake in the kernel or in the compiler is a compile error that names the stage. Dumps are
/// written as `environment` says; what the process's variables hold now is not looked at.
StatusOr<Artifact> compile(const Kernel &kernel, const Target &target, const CompileOptions &options,
                           const Environment &environment = {});

/// What `compile` makes on the way: the IR after a stage, as text.
/// `lowered` is where a target's lowering starts; `plan` the same with what the warps of a GPU's CTA do,
/// `layout` with which threads hold what as well; `llvm` LLVM's own IR after its optimiser.
enum class Stage { tile, lowered, plan, layout, llvm, assembly };
StatusOr<std::string> emit(const Kernel &kernel, const Target &target, const CompileOptions &options,
                           Stage stage, const Environment &environment = {});

/// SHA-256 over the kernel's tile IR, in hex: two kernels that print the same compile the same.
StatusOr<std::string> fingerprint(const Kernel &kernel);

} // namespace tilewright

#pragma once

#include <string>

namespace tilewright::test {

/// ptxas on PATH or below CUDA_HOME; empty where there is none.
std::string findPtxAssembler();

/// Assembles. Empty if it went well, without warnings and spills; else what the assembler said.
std::string faultsOfAssembled(const std::string &assembler, const std::string &ptx, const std::string &arch);

} // namespace tilewright::test

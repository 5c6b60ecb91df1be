#pragma once

#include <string>

namespace tilewright::test {

/// LLVM IR as text to a relocatable, position-independent object for this machine, or for `triple`. Aborts
/// the test program when the text is no IR.
std::string objectFromIr(const std::string &ir, const std::string &triple = "");

} // namespace tilewright::test

#pragma once

#include <string>

namespace tilewright {

/// A digest of the sources that name kernels, and decide what they compute and what they are launched with. A
/// bundle of kernels fits the library whose digest it has.
const std::string &hostSources();

} // namespace tilewright

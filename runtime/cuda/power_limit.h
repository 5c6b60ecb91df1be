#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tilewright::cuda {

/// Watts that the GPU at this PCI address is made to draw, from NVIDIA's management library; nothing when the
/// library does not say. Two boards of one model with different limits run at different speeds. It is the
/// board's default limit, not the one that is enforced today: tuning records are kept by what a device is.
std::optional<int> powerLimitWatts(const std::string &pciAddress);

/// The same, with functions of the library found by name. Null: the library does not have it.
using SymbolLookup = std::function<void *(const char *name)>;
std::optional<int> powerLimitWatts(const std::string &pciAddress, const SymbolLookup &symbol);

} // namespace tilewright::cuda

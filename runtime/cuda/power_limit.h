#pragma once

#include <optional>
#include <string>

namespace tilewright::cuda {

/// Watts that the GPU at this PCI address may draw, from NVIDIA's management library; nothing when the
/// library does not say. Two boards of one model with different limits run at different speeds.
std::optional<int> powerLimitWatts(const std::string &pciAddress);

} // namespace tilewright::cuda

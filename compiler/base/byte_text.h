#pragma once

#include <cstdint>
#include <string>

namespace tilewright {

/// About so many bytes, for tables: "1.5 GiB", "64 MiB", "12 bytes".
std::string byteText(double bytes);

/// Exactly so many bytes, for messages: "1 MiB (1048576 bytes)", "1.5 MiB (1572865 bytes)", "12 bytes".
std::string exactByteText(int64_t bytes);

} // namespace tilewright

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tilewright {

/// `text` with control characters and bytes that are not UTF-8 written as \xNN, so that it fits on one line
/// of a terminal.
std::string printable(std::string_view text);

/// Whether a byte of UTF-8 text is not the first of its character.
inline bool isContinuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

} // namespace tilewright

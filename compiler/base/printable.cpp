#include "compiler/base/printable.h"

namespace tilewright {
namespace {

std::string escaped(unsigned char byte) {
  const char *digits = "0123456789abcdef";
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

/// Bytes of the UTF-8 sequence that begins at `at`; 0 when what is there is none.
std::size_t sequenceBytes(std::string_view text, std::size_t at) {
  const unsigned char lead = text[at];
  const std::size_t size = lead < 0x80                   ? 1
                           : lead >= 0xf0 && lead < 0xf5 ? 4
                           : lead >= 0xe0                ? 3
                           : lead >= 0xc2                ? 2
                                                         : 0;
  if (size == 0 || lead >= 0xf5 || at + size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if (!isContinuation(text[at + i])) return 0;
  return size;
}

} // namespace

std::string printable(std::string_view text) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const unsigned char byte = text[at];
    const std::size_t size = sequenceBytes(text, at);
    const bool isControl =
        byte < 0x20 || byte == 0x7f || (byte == 0xc2 && size == 2 && text[at + 1] < '\xa0');
    if (size == 0 || isControl)
      line += escaped(byte);
    else
      line += text.substr(at, size);
    at += size == 0 || isControl ? 1 : size;
  }
  return line;
}

} // namespace tilewright

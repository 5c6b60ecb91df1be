#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

/// Byte pairs: the 256 bytes, then pairs of earlier tokens, each the most frequent pair of neighbours in the
/// text when it was added.
struct Tokens {
  std::vector<int32_t> ids;          ///< the whole text
  std::vector<std::string> spelling; ///< of each token
};

/// `vocabulary` >= 256 tokens, or fewer when no pair occurs twice any more.
Tokens tokenize(const std::string &text, int vocabulary);

} // namespace tilewright

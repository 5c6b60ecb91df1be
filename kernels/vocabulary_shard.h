#pragma once

#include <cstdint>

namespace tilewright {

/// A vocabulary that ranks share: rank r has the V_r classes from `first` on, of `all`. Shards do not
/// overlap, and together they are all classes; they may differ in size.
struct VocabularyShard {
  int64_t all = 0; ///< classes of all ranks; 0: the vocabulary is not shared
  int64_t first = 0;
  int64_t rank = 0, ranks = 1;
  int64_t widest = 0; ///< the most classes that a rank has: the chunks of all ranks are as such a rank's
};

} // namespace tilewright

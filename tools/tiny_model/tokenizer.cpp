#include "tools/tiny_model/tokenizer.h"

#include <algorithm>

namespace tilewright {
namespace {

/// How often each pair of neighbours occurs, in a table of size × size.
class PairCounts {
public:
  explicit PairCounts(std::size_t size) : size_(size), counts_(size * size) {}

  struct Pair {
    int32_t first, second;
    int32_t count;
  };

  Pair mostFrequent(const std::vector<int32_t> &ids) {
    std::fill(counts_.begin(), counts_.end(), 0);
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      ++counts_[ids[i] * size_ + ids[i + 1]];
    const auto top = std::max_element(counts_.begin(), counts_.end());
    const std::size_t at = top - counts_.begin();
    return {static_cast<int32_t>(at / size_), static_cast<int32_t>(at % size_), *top};
  }

private:
  std::size_t size_;
  std::vector<int32_t> counts_;
};

void replacePairs(std::vector<int32_t> &ids, int32_t first, int32_t second, int32_t joined) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool isPair = ids[i] == first && i + 1 < ids.size() && ids[i + 1] == second;
    ids[kept++] = isPair ? joined : ids[i];
    i += isPair ? 1 : 0;
  }
  ids.resize(kept);
}

} // namespace

Tokens tokenize(const std::string &text, int vocabulary) {
  Tokens tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.spelling.emplace_back(1, static_cast<char>(byte));
  for (char c : text)
    tokens.ids.push_back(static_cast<unsigned char>(c));
  PairCounts counts(vocabulary);
  while (static_cast<int>(tokens.spelling.size()) < vocabulary) {
    const PairCounts::Pair pair = counts.mostFrequent(tokens.ids);
    if (pair.count < 2) break;
    replacePairs(tokens.ids, pair.first, pair.second, static_cast<int32_t>(tokens.spelling.size()));
    tokens.spelling.push_back(tokens.spelling[pair.first] + tokens.spelling[pair.second]);
  }
  return tokens;
}

} // namespace tilewright

#pragma once

#include <string>

namespace tilewright {

/// Text to learn from.
struct Corpus {
  std::string text;
  std::string origin; ///< for people: where it was found and how much of it there is
};

/// The sources and documents of this repository, when the program lies in it or runs in it; else those of the
/// command line, which are compiled into the program. `limit` bytes at most.
Corpus repositoryText(std::size_t limit);

} // namespace tilewright

#include "tools/tiny_model/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "tools/cli/text.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

constexpr char kText[] =
#include "tools/tiny_model/embedded_text.inc"
    ;
// With its size: a compiler that counts characters itself counts to 262144 at most.
constexpr std::string_view kEmbedded(kText, sizeof(kText) - 1);

constexpr std::array<const char *, 6> kRooms = {"compiler", "runtime", "autotune",
                                                "kernels",  "tools",   "tests"};

/// The first folder at or above `path` that holds this repository; empty when there is none.
fs::path repositoryAbove(fs::path path) {
  std::error_code ignored;
  for (; !path.empty(); path = path.parent_path()) {
    if (fs::exists(path / "compiler/dsl/builder.h", ignored) && fs::exists(path / "kernels", ignored))
      return path;
    if (path == path.root_path()) break;
  }
  return {};
}

fs::path findRepository() {
  std::error_code ignored;
  const fs::path here = repositoryAbove(fs::current_path(ignored));
  return here.empty() ? repositoryAbove(fs::read_symlink("/proc/self/exe", ignored)) : here;
}

bool isText(const fs::path &path) {
  static const std::array<std::string_view, 6> endings = {".h", ".cpp", ".td", ".md", ".mlir", ".py"};
  return std::find(endings.begin(), endings.end(), path.extension().string()) != endings.end();
}

/// Sorted, so that every run learns from the same text.
std::vector<fs::path> textFiles(const fs::path &root) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const char *room : kRooms)
    for (fs::recursive_directory_iterator at(root / room, ignored), end; at != end; at.increment(ignored))
      if (isText(at->path()) && at->is_regular_file(ignored)) files.push_back(at->path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string contents(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

Corpus repositoryText(std::size_t limit) {
  Corpus corpus;
  const fs::path root = findRepository();
  std::size_t files = 0;
  if (!root.empty())
    for (const fs::path &path : textFiles(root)) {
      if (corpus.text.size() >= limit) break;
      corpus.text += contents(path);
      ++files;
    }
  corpus.origin = fmt::format("{} files of {}", files, printable(root.string()));
  if (corpus.text.size() < kEmbedded.size() / 4) {
    corpus.text = kEmbedded;
    corpus.origin = "the command line's sources, from inside this program";
  }
  corpus.text.resize(std::min(corpus.text.size(), limit));
  return corpus;
}

} // namespace tilewright

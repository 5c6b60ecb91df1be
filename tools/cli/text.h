#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/printable.h"

namespace tilewright {

/// Code points of UTF-8 text, which is the columns it takes for all that this program prints.
std::size_t displayWidth(std::string_view text);

/// Whether the terminal's locale says UTF-8.
bool localeIsUtf8();

/// Rows of cells in aligned columns: the first column to the left, the others to the right.
class Table {
public:
  explicit Table(std::vector<std::string> heads) : rows_{std::move(heads)} {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Every line begins with `indent` and ends with a newline.
  std::string str(const std::string &indent = "  ") const;

private:
  std::vector<std::vector<std::string>> rows_;
};

/// "85.3 GFLOP/s", "714.1 TFLOP/s".
std::string speedText(double flopsPerSecond);

} // namespace tilewright

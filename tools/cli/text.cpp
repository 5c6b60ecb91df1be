#include "tools/cli/text.h"

#include <fmt/format.h>
#include <langinfo.h>

#include <algorithm>
#include <clocale>

namespace tilewright {
std::size_t displayWidth(std::string_view text) {
  return text.size() -
         std::count_if(text.begin(), text.end(), [](unsigned char c) { return isContinuation(c); });
}

bool localeIsUtf8() {
  static const bool answer = [] {
    setlocale(LC_CTYPE, "");
    return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  }();
  return answer;
}

std::string Table::str(const std::string &indent) const {
  std::vector<std::size_t> widths;
  for (const auto &row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], displayWidth(row[i]));
    }
  std::string text;
  for (const auto &row : rows_) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - displayWidth(row[i]), ' ');
      line += i == 0 ? row[i] + padding : "  " + padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string speedText(double flopsPerSecond) {
  const bool isLarge = flopsPerSecond >= 1e12;
  return fmt::format("{:.1f} {}FLOP/s", flopsPerSecond / (isLarge ? 1e12 : 1e9), isLarge ? 'T' : 'G');
}

} // namespace tilewright

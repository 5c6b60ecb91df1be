#include "tools/cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "kernels/largest_size.h"
#include "tools/cli/text.h"

namespace tilewright {
namespace {

const OptionSpec *findOption(const Command &command, const std::string &name) {
  for (const OptionSpec &option : command.options)
    if (option.name == name) return &option;
  return nullptr;
}

std::vector<std::string> optionNames(const Command &command) {
  std::vector<std::string> names;
  for (const OptionSpec &option : command.options)
    if (option.kind != OptionSpec::Kind::later) names.push_back(option.name);
  return names;
}

Status unknownOption(const Command &command, const std::string &name) {
  const std::vector<std::string> names = optionNames(command);
  const std::string near = nearestName(name, names);
  std::string what = names.empty()  ? "no options"
                     : near.empty() ? fmt::format("{}", fmt::join(names, ", "))
                                    : near;
  return userError(fmt::format("expected {}, found {}; see tilewright {} --help", what, name, command.name));
}

/// A whole decimal number, or nothing.
std::optional<int64_t> parseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Levenshtein's distance.
std::size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

} // namespace

std::string nearestName(const std::string &word, const std::vector<std::string> &names) {
  for (const std::string &name : names)
    if (editDistance(word, name) <= 2) return name;
  return "";
}

Status notInThisVersion(const std::string &what, const std::string &instead) {
  return userError(what + " is not available in this version" + (instead.empty() ? "" : "; use " + instead));
}

std::string helpText(const Command &command) {
  std::string text = "tilewright " + command.name + ": " + command.summary + "\n\n";
  for (std::size_t begin = 0; begin <= command.usage.size();) {
    const std::size_t end = std::min(command.usage.find('\n', begin), command.usage.size());
    text += "  tilewright " + command.name + " " + command.usage.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  std::size_t width = 0;
  const auto head = [](const OptionSpec &option) { return option.name + " " + option.value; };
  for (const OptionSpec &option : command.options)
    width = std::max(width, displayWidth(head(option)));
  if (!command.options.empty()) text += "\n";
  for (const OptionSpec &option : command.options)
    if (option.kind != OptionSpec::Kind::later)
      text += fmt::format("  {:<{}}  {}\n", head(option), width, option.help);
  return text;
}

StatusOr<Arguments> Arguments::parse(const Command &command, const std::vector<std::string> &words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string &word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      if (static_cast<int>(arguments.positionals_.size()) == command.positionals)
        return userError(
            fmt::format("expected an option, found '{}'; see tilewright {} --help", word, command.name));
      arguments.positionals_.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const OptionSpec *option = findOption(command, name);
    if (!option) return unknownOption(command, name);
    if (option->kind == OptionSpec::Kind::later) return notInThisVersion(name);
    if (arguments.has(name) && option->kind != OptionSpec::Kind::list)
      return userError("expected " + name + " once, found it twice");
    std::vector<std::string> &values = arguments.values_[name];
    if (option->kind == OptionSpec::Kind::flag) {
      if (equals != std::string::npos)
        return userError("expected " + name + " without a value, found " + word);
    } else if (equals != std::string::npos) {
      values.push_back(word.substr(equals + 1));
    } else if (i + 1 == words.size() || words[i + 1].substr(0, 2) == "--") {
      return userError("expected " + name + " " + option->value + ", found no value");
    } else {
      values.push_back(words[++i]);
    }
  }
  return arguments;
}

std::vector<std::string> Arguments::list(const std::string &option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::optional<std::string> Arguments::text(const std::string &option) const {
  const auto found = values_.find(option);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second.front();
}

StatusOr<std::string> Arguments::required(const std::string &option) const {
  if (const std::optional<std::string> value = text(option)) return *value;
  return userError("expected " + option + ", found none; give it (--help lists the options)");
}

StatusOr<std::string> Arguments::choice(const std::string &option, const std::vector<std::string> &choices,
                                        const std::vector<std::string> &later) const {
  const std::string value = text(option).value_or(choices.front());
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  const std::string listed = fmt::format("{}", fmt::join(choices, ", "));
  if (std::find(later.begin(), later.end(), value) != later.end())
    return notInThisVersion(option + " " + value, listed);
  return userError(fmt::format("expected {} to be one of {}; found '{}'", option, listed, value));
}

StatusOr<int64_t> Arguments::integer(const std::string &option, int64_t absent) const {
  const std::optional<std::string> value = text(option);
  if (!value) return absent;
  if (const std::optional<int64_t> number = parseInteger(*value)) return *number;
  return userError(fmt::format("expected {} to be an integer of 64 bits, found '{}'", option, *value));
}

StatusOr<float> Arguments::number(const std::string &option, float absent) const {
  const std::optional<std::string> value = text(option);
  if (!value) return absent;
  double number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  const bool whole = error == std::errc() && end == value->data() + value->size();
  if (whole && std::isfinite(static_cast<float>(number))) return static_cast<float>(number);
  return userError(fmt::format("expected {} to be a finite number, found '{}'", option, *value));
}

StatusOr<int64_t> Arguments::bytes(const std::string &option, int64_t absent) const {
  const std::optional<std::string> value = text(option);
  if (!value) return absent;
  const std::size_t digits = std::min(value->find_first_not_of("0123456789"), value->size());
  const std::string unit = value->substr(digits);
  const std::vector<std::string> units = {"", "KiB", "MiB", "GiB", "TiB"};
  const auto scale = std::find(units.begin(), units.end(), unit);
  const std::optional<int64_t> number = parseInteger(value->substr(0, digits));
  int64_t total = 0;
  if (scale == units.end() || !number || *number < 1 ||
      __builtin_mul_overflow(*number, int64_t(1) << (10 * (scale - units.begin())), &total))
    return userError(fmt::format("expected {} to be a number of bytes from 1 to 2^63-1, plain or with KiB, "
                                 "MiB, GiB or TiB; found '{}'",
                                 option, *value));
  return total;
}

StatusOr<ProblemShape> parseShape(const std::string &text) {
  const Status wrong = userError(fmt::format("expected --shape N,H,V with three sizes from 1 to {}, the "
                                             "product of any two below 2^60; found '{}'",
                                             kLargestSize, text));
  std::vector<int64_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::optional<int64_t> size = parseInteger(std::string_view(text).substr(begin, end - begin));
    if (!size || *size < 1 || *size > kLargestSize || sizes.size() == 3) return wrong;
    sizes.push_back(*size);
    begin = end + 1;
  }
  if (sizes.size() != 3) return wrong;
  const auto tooLarge = [](int64_t a, int64_t b) { return a * b >> 60 != 0; }; // two of 31 bits
  if (tooLarge(sizes[0], sizes[1]) || tooLarge(sizes[1], sizes[2]) || tooLarge(sizes[0], sizes[2]))
    return wrong;
  return ProblemShape{sizes[0], sizes[1], sizes[2]};
}

} // namespace tilewright

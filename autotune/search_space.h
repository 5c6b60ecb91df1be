#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/base/status.h"

namespace tilewright {

/// A number, or the name of a choice.
using ParameterValue = std::variant<int64_t, std::string>;
std::string valueText(const ParameterValue &value);

/// Named values in the order in which they were set, each name once: a configuration, or a problem's sizes.
class NamedValues {
public:
  NamedValues() = default;
  NamedValues(std::initializer_list<std::pair<std::string, ParameterValue>> values);

  void set(const std::string &name, ParameterValue value); ///< replaces a value of that name
  bool has(const std::string &name) const { return find(name) != nullptr; }
  /// None when there is no such value, or one of the other kind.
  std::optional<int64_t> integer(const std::string &name) const;
  std::optional<std::string> text(const std::string &name) const;

  const std::vector<std::pair<std::string, ParameterValue>> &all() const { return values_; }
  NamedValues only(const std::vector<std::string> &names) const; ///< those of these names that there are
  /// "chunk_rows=1024 variant=chunked". Texts other than plain words are in quotes, with escapes.
  std::string str() const;
  bool operator==(const NamedValues &other) const { return values_ == other.values_; }

private:
  const ParameterValue *find(const std::string &name) const;

  std::vector<std::pair<std::string, ParameterValue>> values_;
};

/// One point of a search space.
using Configuration = NamedValues;

/// Reads what `str()` prints, from anyone; the result depends on the text alone, so it is the same in every
/// process. A user error names the part that is wrong. Which names and values make sense is the operation's
/// to check.
StatusOr<Configuration> parseConfiguration(const std::string &text);

/// What may be chosen, and the values that are worth trying.
struct SearchParameter {
  std::string name;
  std::vector<ParameterValue> values;
};

/// The parameters of one operation on one problem.
class SearchSpace {
public:
  /// Values that occur twice are kept once.
  void add(const std::string &name, const std::vector<ParameterValue> &values);
  const std::vector<SearchParameter> &parameters() const { return parameters_; }

  /// Every combination of the named parameters' values; all else as in `base`. The first name varies slowest.
  std::vector<Configuration> combinations(const Configuration &base,
                                          const std::vector<std::string> &names) const;

private:
  std::vector<SearchParameter> parameters_;
};

} // namespace tilewright

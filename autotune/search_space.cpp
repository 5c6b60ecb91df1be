#include "autotune/search_space.h"

#include <algorithm>

namespace tilewright {

std::string valueText(const ParameterValue &value) {
  if (const auto *number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  return std::get<std::string>(value);
}

NamedValues::NamedValues(std::initializer_list<std::pair<std::string, ParameterValue>> values) {
  for (const auto &[name, value] : values)
    set(name, value);
}

void NamedValues::set(const std::string &name, ParameterValue value) {
  for (auto &[known, old] : values_)
    if (known == name) {
      old = std::move(value);
      return;
    }
  values_.emplace_back(name, std::move(value));
}

const ParameterValue *NamedValues::find(const std::string &name) const {
  for (const auto &[known, value] : values_)
    if (known == name) return &value;
  return nullptr;
}

std::optional<int64_t> NamedValues::integer(const std::string &name) const {
  const ParameterValue *value = find(name);
  const auto *number = value ? std::get_if<int64_t>(value) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

std::optional<std::string> NamedValues::text(const std::string &name) const {
  const ParameterValue *value = find(name);
  const auto *text = value ? std::get_if<std::string>(value) : nullptr;
  return text ? std::optional(*text) : std::nullopt;
}

NamedValues NamedValues::only(const std::vector<std::string> &names) const {
  NamedValues some;
  for (const auto &[name, value] : values_)
    if (std::find(names.begin(), names.end(), name) != names.end()) some.values_.emplace_back(name, value);
  return some;
}

void SearchSpace::add(const std::string &name, const std::vector<ParameterValue> &values) {
  SearchParameter parameter{name, {}};
  for (const ParameterValue &value : values)
    if (std::find(parameter.values.begin(), parameter.values.end(), value) == parameter.values.end())
      parameter.values.push_back(value);
  parameters_.push_back(std::move(parameter));
}

std::vector<Configuration> SearchSpace::combinations(const Configuration &base,
                                                     const std::vector<std::string> &names) const {
  std::vector<Configuration> all = {base};
  for (const std::string &name : names) {
    const auto parameter = std::find_if(parameters_.begin(), parameters_.end(),
                                        [&](const SearchParameter &p) { return p.name == name; });
    if (parameter == parameters_.end()) continue;
    std::vector<Configuration> grown;
    for (const Configuration &configuration : all)
      for (const ParameterValue &value : parameter->values) {
        grown.push_back(configuration);
        grown.back().set(name, value);
      }
    all = std::move(grown);
  }
  return all;
}

} // namespace tilewright

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/base/status.h"

namespace tilewright {

class Arguments;

/// One option of a command, as help shows it and as the parser takes it.
struct OptionSpec {
  enum class Kind {
    value, ///< `--name VALUE` or `--name=VALUE`, once
    list,  ///< the same, any number of times
    flag,  ///< `--name`
    later, ///< known, but not in this version: refused by name
  };
  std::string name;  ///< with its dashes
  std::string value; ///< what help calls the value
  std::string help;
  Kind kind = Kind::value;
};

struct Command {
  std::string name;
  std::string summary; ///< one line
  std::string usage;   ///< what follows the name; a line for each form
  std::vector<OptionSpec> options;
  int positionals = 0; ///< words without dashes that it takes at most
  Status (*run)(const Arguments &arguments) = nullptr;
};

std::string helpText(const Command &command);

/// What was typed after a command's name. The accessors' errors are the user's and name the option.
class Arguments {
public:
  static StatusOr<Arguments> parse(const Command &command, const std::vector<std::string> &words);

  bool has(const std::string &option) const { return values_.count(option) != 0; }
  const std::vector<std::string> &positionals() const { return positionals_; }
  std::vector<std::string> list(const std::string &option) const;
  std::optional<std::string> text(const std::string &option) const;

  StatusOr<std::string> required(const std::string &option) const;
  /// One of `choices`; the first when the option is absent. Those in `later` are refused as not in this
  /// version.
  StatusOr<std::string> choice(const std::string &option, const std::vector<std::string> &choices,
                               const std::vector<std::string> &later = {}) const;
  StatusOr<int64_t> integer(const std::string &option, int64_t absent) const;
  /// A decimal number that fp32 can hold.
  StatusOr<float> number(const std::string &option, float absent) const;
  /// "1048576", "256MiB", …: at least 1.
  StatusOr<int64_t> bytes(const std::string &option, int64_t absent) const;

private:
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> positionals_;
};

/// "this is not available in this version", with what is.
Status notInThisVersion(const std::string &what, const std::string &instead = "");

/// The known name that differs from `word` by a slip of the finger, or "".
std::string nearestName(const std::string &word, const std::vector<std::string> &names);

/// "N,H,V": three sizes from 1 to kLargestSize, of which any two multiply to less than 2^60.
struct ProblemShape {
  int64_t rows = 0, hidden = 0, classes = 0;
};
StatusOr<ProblemShape> parseShape(const std::string &text);

} // namespace tilewright

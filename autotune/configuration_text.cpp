// Named values as one line of text, and back. Depends on nothing but the text: neither locale nor machine.

#include <algorithm>
#include <charconv>
#include <string_view>

#include "autotune/search_space.h"

namespace tilewright {
namespace {

constexpr std::size_t kMaxText = 16384, kMaxWord = 512, kMaxValues = 64, kMaxShown = 60;

bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isWordCharacter(char c) {
  return isLetter(c) || isDigit(c) || (c != 0 && std::string_view("-+.:/").find(c) != std::string_view::npos);
}

/// Stands without quotes: no integer begins like it.
bool isWord(std::string_view text) {
  return !text.empty() && isLetter(text[0]) && std::all_of(text.begin(), text.end(), isWordCharacter);
}

std::string quoted(std::string_view text) {
  constexpr const char *digits = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f)
      result += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    else
      result += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
  }
  return result + "\"";
}

std::string wordOrQuoted(std::string_view text) { return isWord(text) ? std::string(text) : quoted(text); }

/// Walks through the text once.
class Reader {
public:
  explicit Reader(std::string_view text) : text_(text) {}

  StatusOr<Configuration> read() {
    if (text_.size() > kMaxText)
      return userError("expected a configuration of at most " + std::to_string(kMaxText) +
                       " characters, found " + std::to_string(text_.size()));
    Configuration configuration;
    while (skipSpaces()) {
      part_ = at_;
      TW_ASSIGN_OR_RETURN(const std::string name, word());
      if (peek() != '=') return wrong("NAME=VALUE");
      ++at_;
      TW_ASSIGN_OR_RETURN(ParameterValue read, value());
      if (at_ < text_.size() && peek() != ' ') return wrong("a space behind the value");
      if (configuration.has(name)) return wrong("each name once");
      if (configuration.all().size() == kMaxValues)
        return wrong("at most " + std::to_string(kMaxValues) + " values");
      configuration.set(name, std::move(read));
    }
    return configuration;
  }

private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  /// Whether anything follows.
  bool skipSpaces() {
    while (peek() == ' ')
      ++at_;
    return at_ < text_.size();
  }

  Status wrong(const std::string &expected) const {
    const std::size_t end = std::min(text_.find(' ', part_), text_.size());
    const std::string_view part = text_.substr(part_, end - part_);
    return userError("configuration: expected " + expected + ", found " + quoted(part.substr(0, kMaxShown)) +
                     (part.size() > kMaxShown ? "..." : ""));
  }

  StatusOr<ParameterValue> value() {
    if (isDigit(peek()) || peek() == '-') {
      TW_ASSIGN_OR_RETURN(const int64_t number, integer());
      return ParameterValue(number);
    }
    TW_ASSIGN_OR_RETURN(std::string text, word());
    return ParameterValue(std::move(text));
  }

  /// As it is printed only, so that equal configurations have equal texts: no sign +, no leading zeros.
  StatusOr<int64_t> integer() {
    std::size_t end = at_ + 1;
    while (end < text_.size() && isDigit(text_[end]))
      ++end;
    const std::string_view digits = text_.substr(at_, end - at_);
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || stop != digits.data() + digits.size() || std::to_string(number) != digits)
      return wrong("an integer of 64 bits without leading zeros");
    at_ = end;
    return number;
  }

  StatusOr<std::string> word() {
    if (peek() == '"') return quotedWord();
    const std::size_t begin = at_;
    while (isWordCharacter(peek()))
      ++at_;
    const std::string_view found = text_.substr(begin, at_ - begin);
    if (!isWord(found) || found.size() > kMaxWord)
      return wrong("NAME=VALUE of integers and words of at most " + std::to_string(kMaxWord) + " letters");
    return std::string(found);
  }

  StatusOr<std::string> quotedWord() {
    std::string result;
    for (++at_; peek() != '"'; ++at_) {
      const char c = peek();
      if (c < 0x20 || c >= 0x7f) return wrong("a closing quote, and \\xHH for other than ASCII characters");
      if (c != '\\') {
        result += c;
        continue;
      }
      ++at_;
      if (peek() == '"' || peek() == '\\')
        result += peek();
      else if (const std::optional<char> byte = hexByte())
        result += *byte;
      else
        return wrong("\\\", \\\\ or \\xHH");
    }
    ++at_;
    if (result.size() > kMaxWord) return wrong("at most " + std::to_string(kMaxWord) + " characters");
    return result;
  }

  /// The byte of "xHH", whose last digit is then the current character.
  std::optional<char> hexByte() {
    const std::string_view digits = text_.substr(std::min(at_ + 1, text_.size()), 2);
    unsigned byte = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (peek() != 'x' || digits.size() != 2 || error != std::errc() || stop != digits.data() + 2)
      return std::nullopt;
    at_ += 2;
    return static_cast<char>(byte);
  }

  const std::string_view text_;
  std::size_t at_ = 0, part_ = 0; ///< where the reader is, and where the current NAME=VALUE begins
};

} // namespace

std::string NamedValues::str() const {
  std::string text;
  for (const auto &[name, value] : values_) {
    const auto *word = std::get_if<std::string>(&value);
    text += (text.empty() ? "" : " ") + wordOrQuoted(name) + "=" +
            (word ? wordOrQuoted(*word) : valueText(value));
  }
  return text;
}

StatusOr<Configuration> parseConfiguration(const std::string &text) { return Reader(text).read(); }

} // namespace tilewright

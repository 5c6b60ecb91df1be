#pragma once

#include <string>
#include <string_view>

namespace tilewright {

/// SHA-256 in 64 lower-case hex digits.
std::string sha256(std::string_view bytes);

/// Digests of several fields, such that no two different sequences of fields meet: ("ab", "c") is not ("a",
/// "bc").
class FieldHasher {
public:
  FieldHasher &add(std::string_view field);
  std::string digest() const { return sha256(text_); }

private:
  std::string text_;
};

} // namespace tilewright

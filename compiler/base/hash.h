#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace tilewright {

/// SHA-256 in 64 lower-case hex digits.
std::string sha256(std::string_view bytes);

/// The fields as one text, such that no two different sequences give one text: ("ab", "c") is not ("a",
/// "bc").
std::string joinFields(std::initializer_list<std::string_view> fields);

} // namespace tilewright

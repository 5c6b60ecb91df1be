#pragma once

#include <cstddef>
#include <string>

#include "compiler/base/status.h"

namespace tilewright {

/// What a tensor in memory holds.
enum class ElementType { f32, bf16, f16, i32, i64 };

std::size_t elementBytes(ElementType element);
const char *elementName(ElementType element);
bool isFloat(ElementType element);

/// Reads a name as `elementName` writes it; a user error lists the names there are.
StatusOr<ElementType> parseElementType(const std::string &name);

} // namespace tilewright

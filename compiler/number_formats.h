#pragma once

#include <cstdint>

#include "compiler/element_type.h"

namespace tilewright {

/// Conversions to and from the 16-bit formats, as bits. To 16 bits: one rounding to nearest, ties to even,
/// from the value as given (a double is not rounded to fp32 on the way); beyond the largest number: infinity;
/// NaN stays NaN.
uint16_t bf16FromDouble(double value);
uint16_t f16FromDouble(double value);
float floatFromBf16(uint16_t bits);
float floatFromF16(uint16_t bits);

/// A double that rounds to any format of at most 51 significant bits as `magnitude` (negated if asked) itself
/// would.
double doubleForRounding(uint64_t magnitude, bool negative);

/// One element of a tensor in memory, of any type: to a number, and from one, rounded as above. 64-bit
/// integers beyond 2^53 are not exact.
double loadElement(ElementType element, const void *from);
void storeElement(ElementType element, double value, void *to);

} // namespace tilewright

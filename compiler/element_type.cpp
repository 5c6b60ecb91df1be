#include "compiler/element_type.h"

namespace tilewright {
namespace {

constexpr ElementType kElements[] = {ElementType::f32, ElementType::bf16, ElementType::f16, ElementType::i32,
                                     ElementType::i64};

} // namespace

std::size_t elementBytes(ElementType element) {
  switch (element) {
  case ElementType::bf16:
  case ElementType::f16:
    return 2;
  case ElementType::f32:
  case ElementType::i32:
    return 4;
  case ElementType::i64:
    return 8;
  }
  return 0;
}

const char *elementName(ElementType element) {
  switch (element) {
  case ElementType::f32:
    return "f32";
  case ElementType::bf16:
    return "bf16";
  case ElementType::f16:
    return "f16";
  case ElementType::i32:
    return "i32";
  case ElementType::i64:
    return "i64";
  }
  return "unknown";
}

bool isFloat(ElementType element) { return element != ElementType::i32 && element != ElementType::i64; }

StatusOr<ElementType> parseElementType(const std::string &name) {
  std::string names;
  for (ElementType element : kElements) {
    if (name == elementName(element)) return element;
    names += std::string(names.empty() ? "" : ", ") + elementName(element);
  }
  return userError("element type '" + name + "' is not known; choices: " + names);
}

} // namespace tilewright

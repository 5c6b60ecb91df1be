#pragma once

#include "compiler/base/status.h"
#include "compiler/element_type.h"
#include "tools/cli/arguments.h"

namespace tilewright {

/// What `--dtype` names: what matrices hold, and how f32 ones are multiplied.
struct NumberType {
  ElementType element = ElementType::f32;
  bool tf32 = false;

  const char *name() const { return tf32 ? "tf32" : elementName(element); }
};

/// f32 when the option is absent.
StatusOr<NumberType> readNumberType(const Arguments &arguments);

/// The option as help shows it; `what` completes its sentence.
OptionSpec numberTypeSpec(const std::string &what = "");

} // namespace tilewright

#include "tools/cli/number_type.h"

namespace tilewright {

StatusOr<NumberType> readNumberType(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const std::string name, arguments.choice("--dtype", {"f32", "tf32", "bf16", "f16"}));
  if (name == "tf32") return NumberType{ElementType::f32, true};
  TW_ASSIGN_OR_RETURN(const ElementType element, parseElementType(name));
  return NumberType{element, false};
}

OptionSpec numberTypeSpec(const std::string &what) {
  return {"--dtype", "TYPE", "f32 (default), tf32 (f32 with products rounded to TF32), bf16 or f16" + what};
}

} // namespace tilewright

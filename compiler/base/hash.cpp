#include "compiler/base/hash.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

namespace tilewright {

std::string sha256(std::string_view bytes) {
  auto digest = llvm::SHA256::hash({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  return llvm::toHex(digest, /*LowerCase=*/true);
}

std::string joinFields(std::initializer_list<std::string_view> fields) {
  std::string text;
  for (std::string_view field : fields) {
    text += std::to_string(field.size()) + ':';
    text += field;
  }
  return text;
}

} // namespace tilewright

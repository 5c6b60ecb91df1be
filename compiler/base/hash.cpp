#include "compiler/base/hash.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

namespace tilewright {

std::string sha256(std::string_view bytes) {
  auto digest = llvm::SHA256::hash({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  return llvm::toHex(digest, /*LowerCase=*/true);
}

FieldHasher &FieldHasher::add(std::string_view field) {
  text_ += std::to_string(field.size()) + ':';
  text_ += field;
  return *this;
}

} // namespace tilewright

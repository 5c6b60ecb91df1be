#include "runtime/host_sources.h"

#include "runtime/host_sources_digest.inc"

namespace tilewright {

const std::string &hostSources() {
  static const auto *const digest = new std::string(TILEWRIGHT_HOST_SOURCES_DIGEST); // never destroyed
  return *digest;
}

} // namespace tilewright

#include "runtime/host_sources.h"

#include "runtime/host_sources_digest.inc"

namespace tilewright {

const std::string &hostSources() {
  static const std::string digest = TILEWRIGHT_HOST_SOURCES_DIGEST;
  return digest;
}

} // namespace tilewright

#pragma once

#include <nlohmann/json.hpp>

#include "compiler/artifact.h"
#include "compiler/base/status.h"

namespace tilewright {

/// An artifact but for its assembly and binary, as files that hold kernels have it.
nlohmann::json encodeArtifact(const Artifact &artifact);
/// Throws what nlohmann::json throws where the value is none.
Artifact decodeArtifact(const nlohmann::json &value);

/// Numbers that a launch divides by or takes for sizes. A file may be written by anyone who may write its
/// folder, or come from elsewhere.
Status checkRanges(const Artifact &artifact);

} // namespace tilewright

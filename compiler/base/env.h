#pragma once

#include <string>
#include <vector>

#include "compiler/base/log.h"
#include "compiler/base/status.h"

namespace tilewright {

/// One environment variable that this project reads; env.cpp alone calls getenv.
struct EnvVariable {
  const char *name;
  const char *meaning;
  const char *choices; ///< the values that are understood, for people
  bool entersKey;      ///< compiled code depends on it, so it is part of every cache key
};
const std::vector<EnvVariable> &envVariables();

/// What one of them holds now; empty when it is not set.
std::string currentValue(const EnvVariable &variable);

/// Whether configurations found by tuning are used (`read`), and sought when there are none (`write`).
enum class AutotuneMode { off, read, write };

/// The environment as it is now. An unset or empty variable leaves the default.
struct Environment {
  std::string cacheDir; ///< empty: kernels are not kept on disk
  std::string device = "cpu";
  std::string target; ///< of a device's code, as `parseTarget` takes it; empty: all that the device has
  std::vector<std::string> bundles;     ///< files of compiled kernels, in the order in which they are asked
  std::vector<std::string> toolFolders; ///< absolute, in the order in which a `ptxas` is sought there
  std::vector<std::string> dump;        ///< stages to write while compiling: tile, lowered, llvm, assembly
  std::string dumpDir;                  ///< empty: none was named, and dumps go to the working directory
  LogLevel log = LogLevel::warning;
  AutotuneMode autotune = AutotuneMode::read;
  int threads = 0;      ///< of the CPU device; 0: one per core this process may use
  std::string keyLines; ///< "NAME=value" lines of the variables that enter cache keys and are set
};

/// A user error names the variable, what it holds, and its choices.
StatusOr<Environment> readEnvironment();

} // namespace tilewright

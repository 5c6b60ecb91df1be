#include "compiler/base/log.h"

#include <unistd.h>

#include "compiler/base/env.h"

namespace tilewright {

const char *logLevelName(LogLevel level) {
  switch (level) {
  case LogLevel::error:
    return "error";
  case LogLevel::warning:
    return "warning";
  case LogLevel::info:
    return "info";
  case LogLevel::debug:
    return "debug";
  }
  return "unknown";
}

LogLevel logLevel() {
  static const LogLevel level = [] {
    StatusOr<Environment> environment = readEnvironment();
    return environment.ok() ? environment->log : LogLevel::warning;
  }();
  return level;
}

void log(LogLevel level, const std::string &message) {
  if (level > logLevel()) return;
  std::string line = std::string("tilewright: ") + logLevelName(level) + ": " + message;
  for (char &c : line)
    if (c == '\n') c = ' ';
  line += '\n';
  // One write per line keeps the lines of several processes whole; nothing can be done if stderr is closed.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

} // namespace tilewright

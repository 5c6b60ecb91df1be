#pragma once

#include <string>

namespace tilewright {

enum class LogLevel { error, warning, info, debug };

/// Writes "tilewright: LEVEL: MESSAGE", one line, to stderr if its level is in force. Lines of several
/// threads or processes do not mix. What would steer a terminal is escaped, see `printable`.
void log(LogLevel level, const std::string &message);

/// The level that is in force, of the whole process: that of `setLogLevel` (log_sink.h), else the default.
LogLevel logLevel();

/// What TILEWRIGHT_LOG says becomes the default when a runtime or a device is opened; `warning` until then.
void setDefaultLogLevel(LogLevel level);

/// "error", "warning", "info", "debug".
const char *logLevelName(LogLevel level);

inline void logError(const std::string &message) { log(LogLevel::error, message); }
inline void logWarning(const std::string &message) { log(LogLevel::warning, message); }
inline void logInfo(const std::string &message) { log(LogLevel::info, message); }
inline void logDebug(const std::string &message) { log(LogLevel::debug, message); }

} // namespace tilewright

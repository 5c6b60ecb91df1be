#pragma once

#include <functional>
#include <string>

#include "compiler/base/log.h"

namespace tilewright {

/// Gets each message of a level that is in force. Any thread may call it, several at a time.
using LogSink = std::function<void(LogLevel, const std::string &message)>;

/// Messages go to the sink from now on, in place of stderr; an empty one: to stderr again. It holds for the
/// whole process. A sink that was replaced may still be under way in another thread when this returns.
void setLogSink(LogSink sink);

/// The level that is in force from now on, in place of what TILEWRIGHT_LOG says.
void setLogLevel(LogLevel level);

} // namespace tilewright

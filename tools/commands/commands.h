#pragma once

#include "tools/cli/arguments.h"

namespace tilewright {

/// One a file, cmd_NAME.cpp. They print to stdout and return what went wrong.
Command demoCommand();
Command runCommand();
Command tuneCommand();
Command benchCommand();
Command emitCommand();
Command exportCommand();
Command inspectCommand();
Command planCommand();
Command cacheCommand();

} // namespace tilewright

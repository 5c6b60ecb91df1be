#include "compiler/base/log.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "compiler/base/log_sink.h"
#include "compiler/base/printable.h"

namespace tilewright {
namespace {

constexpr int kNone = -1;
std::atomic<int> chosenLevel{kNone};
std::atomic<LogLevel> defaultLevel{LogLevel::warning};

/// Never destroyed: threads may log while the process ends.
struct Sink {
  std::mutex mutex;
  std::shared_ptr<const LogSink> function;
};
Sink &sink() {
  static Sink *const only = new Sink;
  return *only;
}

std::shared_ptr<const LogSink> currentSink() {
  std::lock_guard<std::mutex> guard(sink().mutex);
  return sink().function;
}

} // namespace

void setLogSink(LogSink function) {
  auto next = function ? std::make_shared<const LogSink>(std::move(function)) : nullptr;
  std::lock_guard<std::mutex> guard(sink().mutex);
  sink().function.swap(next);
}

void setLogLevel(LogLevel level) { chosenLevel = static_cast<int>(level); }

void setDefaultLogLevel(LogLevel level) { defaultLevel = level; }

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
  const int chosen = chosenLevel;
  return chosen == kNone ? defaultLevel.load() : static_cast<LogLevel>(chosen);
}

void log(LogLevel level, const std::string &message) {
  if (level > logLevel()) return;
  if (const std::shared_ptr<const LogSink> taker = currentSink()) return (*taker)(level, message);
  std::string line = std::string("tilewright: ") + logLevelName(level) + ": " + message;
  for (char &c : line)
    if (c == '\n') c = ' ';
  line = printable(line) + '\n';
  // One write per line keeps the lines of several processes whole; nothing can be done if stderr is closed.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

} // namespace tilewright

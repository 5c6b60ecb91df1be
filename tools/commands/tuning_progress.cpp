#include "tools/commands/tuning_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include <unistd.h>

#include "tools/cli/text.h"

namespace tilewright {
namespace {

constexpr int kBarWidth = 24;

volatile std::sig_atomic_t interrupted = 0;

void onInterrupt(int) { interrupted = 1; }

std::string bestText(const TuningProgress &progress) {
  return progress.milliseconds > 0 ? fmt::format(", best {:.2f} ms", progress.milliseconds) : "";
}

} // namespace

TuningProgressBar::TuningProgressBar(std::string title)
    : title_(std::move(title)), terminal_(isatty(2) != 0) {}

TuningProgressBar::~TuningProgressBar() {
  if (drawn_) std::fputs("\n", stderr);
}

void TuningProgressBar::show(const TuningProgress &progress) {
  if (terminal_) {
    const int filled = kBarWidth * std::min(progress.tried, progress.planned) / std::max(1, progress.planned);
    // The cursor goes back to the line's begin; what is left of the line before is erased.
    fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {}/{} {}{}\x1b[K", title_, "", filled, "", kBarWidth - filled,
               progress.tried, progress.planned, progress.step, bestText(progress));
    std::fflush(stderr);
    drawn_ = true;
    return;
  }
  if (progress.step == step_ && progress.milliseconds == best_) return;
  step_ = progress.step, best_ = progress.milliseconds;
  fmt::print(stderr, "{}: {}/{} {}{}{}\n", title_, progress.tried, progress.planned, progress.step,
             bestText(progress), progress.best.empty() ? "" : " (" + progress.best + ")");
}

InterruptRequest::InterruptRequest() {
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = onInterrupt;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

InterruptRequest::~InterruptRequest() { std::signal(SIGINT, SIG_DFL); }

bool InterruptRequest::arrived() { return interrupted != 0; }

} // namespace tilewright

#pragma once

#include <string>

#include "autotune/tuner.h"

namespace tilewright {

/// Shows on stderr how far tuning is: a bar with the best so far on a terminal, else a line whenever there is
/// a new best or a new step.
class TuningProgressBar {
public:
  explicit TuningProgressBar(std::string title);
  ~TuningProgressBar(); ///< leaves the terminal on a line of its own

  void show(const TuningProgress &progress);

private:
  std::string title_;
  const bool terminal_;
  bool drawn_ = false;
  std::string step_;
  double best_ = 0;
};

/// While it lives, the first interrupt (SIGINT) is a request to stop, the second ends the process.
class InterruptRequest {
public:
  InterruptRequest();
  ~InterruptRequest();
  static bool arrived();
};

} // namespace tilewright

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace tilewright {

/// Calls body(0), …, body(count - 1), each once, from this thread and as many others as there are cores. A
/// thread that becomes free takes the next number. `body` must not throw.
inline void parallelFor(int64_t count, const std::function<void(int64_t)> &body) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++)
      body(i);
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min<int64_t>(count, std::thread::hardware_concurrency()); ++i)
    others.emplace_back(work);
  work();
  for (std::thread &other : others)
    other.join();
}

} // namespace tilewright

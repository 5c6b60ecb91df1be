#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace tilewright {

/// Threads that run `work`: `count` of them, or as many as the system allows. Containers often limit them;
/// the caller then does with fewer.
template <typename Work> std::vector<std::thread> startThreads(int64_t count, const Work &work) {
  std::vector<std::thread> threads;
  try {
    while (static_cast<int64_t>(threads.size()) < count)
      threads.emplace_back(work);
  } catch (const std::exception &) {
    // std::thread throws where no thread can be made. Those that there are do all the work.
  }
  return threads;
}

/// Calls body(0), …, body(count - 1), each once, from this thread and as many others as there are cores. A
/// thread that becomes free takes the next number. `body` must not throw.
inline void parallelFor(int64_t count, const std::function<void(int64_t)> &body) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++)
      body(i);
  };
  const int64_t threads = std::min<int64_t>(count, std::thread::hardware_concurrency());
  std::vector<std::thread> others = startThreads(threads - 1, work);
  work();
  for (std::thread &other : others)
    other.join();
}

/// Calls body(begin, end) for consecutive pieces of [0, count), as `parallelFor` does.
inline void parallelPieces(int64_t count, const std::function<void(int64_t begin, int64_t end)> &body) {
  constexpr int64_t kPiece = 1 << 20;
  parallelFor((count + kPiece - 1) / kPiece,
              [&](int64_t i) { body(i * kPiece, std::min(count, (i + 1) * kPiece)); });
}

} // namespace tilewright

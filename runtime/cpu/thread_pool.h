#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tilewright {

/// Threads that share out numbered work. The calling thread takes part, so every `run` ends even if all other
/// threads are busy: calls from several threads at once, and from within work, are safe. In a process that
/// was forked since, where the threads are not, the caller does everything.
class ThreadPool {
public:
  /// `threads` counts the caller; 1 makes none.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// Does part of the work: numbers [begin, end). Must not throw. Refers to a callable that outlives `run`;
  /// a `std::function` would copy it to the heap.
  class Work {
  public:
    template <typename Callable, typename = std::enable_if_t<!std::is_same_v<std::decay_t<Callable>, Work>>>
    Work(Callable &&callable)
        : callable_(const_cast<void *>(static_cast<const void *>(&callable))),
          call_([](void *callable, int64_t begin, int64_t end) {
            (*static_cast<std::remove_reference_t<Callable> *>(callable))(begin, end);
          }) {}
    void operator()(int64_t begin, int64_t end) const { call_(callable_, begin, end); }

  private:
    void *callable_;
    void (*call_)(void *callable, int64_t begin, int64_t end);
  };

  /// Cuts [0, count) into contiguous parts, large ones first, which threads take as they become free. Returns
  /// when all of it is done.
  void run(int64_t count, Work work);

  int threads() const { return threads_; }

private:
  struct State;
  const int threads_;
  std::unique_ptr<State> state_;
};

/// Cores that this process may use: its affinity mask, not the machine's total.
int availableCores();

} // namespace tilewright

#include "runtime/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

#include "compiler/base/parallel.h"
#include "runtime/cpu/processors.h"

namespace tilewright {
namespace {

/// One `run`. Lives on its caller's stack until no other thread uses it.
struct Job {
  Job(int64_t count, ThreadPool::Work work, int threads) : count(count), work(work), threads(threads) {}

  const int64_t count;
  const ThreadPool::Work work;
  const int threads;
  std::atomic<int64_t> next{0};
  int helpers = 0;      ///< threads inside `takeParts` besides the caller; guarded by State::mutex
  Job *after = nullptr; ///< the next of State::jobs; guarded by State::mutex

  /// Sets the next part; false when all are taken. Parts shrink as the end nears: few claims, and no thread
  /// is left with much to do when the others are done.
  bool claim(int64_t &begin, int64_t &end) {
    begin = next.load(std::memory_order_relaxed);
    do {
      if (begin >= count) return false;
      end = begin + std::max<int64_t>(1, (count - begin) / (4 * threads));
    } while (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return true;
  }

  void takeParts() {
    for (int64_t begin, end; claim(begin, end);)
      work(begin, end);
  }
};

} // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable jobAdded;
  std::condition_variable helperLeft;
  Job *jobs = nullptr; ///< that may have parts left to take, oldest first; linked by Job::after
  bool stopping = false;
  std::vector<std::thread> workers;
  const pid_t process = getpid();

  /// fork() copied this object but not its threads, one of which may have held the mutex: nobody will ever
  /// unlock it, or answer.
  bool isCopy() const { return process != getpid(); }
  void workUntilStopped();
  void add(Job *job);
  void withdraw(const Job *job);
};

// The list is linked through the jobs themselves: a launch allocates nothing. It has an element for each
// `run` under way.
void ThreadPool::State::add(Job *job) {
  Job **end = &jobs;
  while (*end)
    end = &(*end)->after;
  *end = job;
}

void ThreadPool::State::withdraw(const Job *job) {
  for (Job **at = &jobs; *at; at = &(*at)->after)
    if (*at == job) {
      *at = job->after;
      return;
    }
}

void ThreadPool::State::workUntilStopped() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    jobAdded.wait(lock, [this] { return stopping || jobs; });
    if (stopping) return;
    Job *job = jobs;
    ++job->helpers;
    lock.unlock();
    job->takeParts();
    lock.lock();
    withdraw(job); // nothing is left to take
    if (--job->helpers == 0) helperLeft.notify_all();
  }
}

ThreadPool::ThreadPool(int threads) : threads_(std::max(1, threads)), state_(std::make_unique<State>()) {
  State *state = state_.get();
  state->workers = startThreads(threads_ - 1, [state] { state->workUntilStopped(); });
}

ThreadPool::~ThreadPool() {
  if (state_->isCopy()) {
    (void)state_.release(); // to join threads that are not there, or destroy what they wait on, would hang
    return;
  }
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stopping = true;
  }
  state_->jobAdded.notify_all();
  for (std::thread &worker : state_->workers)
    worker.join();
}

void ThreadPool::run(int64_t count, Work work) {
  if (count <= 0) return;
  if (count == 1 || threads_ == 1 || state_->isCopy()) return work(0, count);
  Job job(count, work, threads_);
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->add(&job);
  lock.unlock();
  for (int64_t helpers = std::min<int64_t>(count, threads_) - 1; helpers > 0; --helpers)
    state_->jobAdded.notify_one();
  job.takeParts();
  lock.lock();
  state_->withdraw(&job);
  state_->helperLeft.wait(lock, [&job] { return job.helpers == 0; });
}

int availableCores() { return std::max<int>(1, int(allowedProcessors().size())); }

} // namespace tilewright

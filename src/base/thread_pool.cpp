#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

// About 50 microseconds: the gap between two ops of a step is shorter, so a step runs without sleeping in between.
constexpr int kSpins = 20000;

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  const int count = threads > 0 ? threads : usable_cores();
  workers_.reserve(static_cast<size_t>(count - 1));
  for (int thread = 1; thread < count; ++thread) workers_.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    ++generation_;
  }
  start_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::run_erased(int64_t count, ErasedTask task, void* context) {
  if (count <= 0) return;
  if (workers_.empty() || count == 1) {
    for (int64_t i = 0; i < count; ++i) task(context, i, 0);
    return;
  }
  task_ = task;
  context_ = context;
  count_ = count;
  next_ = 0;
  working_ = static_cast<int>(workers_.size());
  {
    std::lock_guard lock(mutex_);
    ++generation_;
  }
  start_.notify_all();
  take_tasks(0);
  while (working_.load(std::memory_order_acquire) > 0) relax();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::take_tasks(int thread) {
  try {
    for (int64_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) task_(context_, i, thread);
  } catch (...) {
    next_ = count_;
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin) relax();
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return generation_.load() != seen; });
    }
    if (stop_) return;
    ++seen;
    take_tasks(thread);
    working_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace trireme

#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr uint32_t kOpen = uint32_t{1} << 31;

// Longer than the gap between two ops of a step, so that threads do not sleep within a step. Shorter than a scheduler's time
// slice, so that a waiting thread yields its core.
constexpr std::chrono::microseconds kSpinTime{50};

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

// Returns a value of `word` other than `value`: spins for kSpinTime, then sleeps until notified.
uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t value) {
  constexpr int kPausesPerCheck = 32;  // pauses per check of the clock; a pause takes between 10 and 50 ns
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int pause = 0; pause < kPausesPerCheck; ++pause) {
      if (const uint32_t now = word.load(std::memory_order_acquire); now != value) return now;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  word.wait(value, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  const int count = threads > 0 ? threads : usable_cores();
  workers_.reserve(static_cast<size_t>(count - 1));
  try {
    for (int thread = 1; thread < count; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error& error) {
    stop();  // joins the started threads; destroying an unjoined thread would end the program
    throw UserError("this machine does not give {} threads ({}); use fewer, trainer.threads or --threads", count, error.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_ = true;
  ++turn_;
  turn_.notify_all();
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
  gate_ = kOpen;
  ++turn_;
  turn_.notify_all();
  take_tasks(0);
  close_and_wait();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::take_tasks(int thread) {
  try {
    for (int64_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) task_(context_, i, thread);
  } catch (...) {
    next_ = count_;
    std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

bool ThreadPool::enter() {
  uint32_t gate = gate_.load();
  while ((gate & kOpen) != 0)
    if (gate_.compare_exchange_weak(gate, gate + 1)) return true;
  return false;
}

void ThreadPool::leave() {
  if (gate_.fetch_sub(1) == 1) gate_.notify_one();  // closed, and this was the last worker inside: wakes the caller
}

void ThreadPool::close_and_wait() {
  uint32_t inside = gate_.fetch_and(~kOpen) & ~kOpen;
  while (inside > 0) inside = wait_for_change(gate_, inside);
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  for (;;) {
    seen = wait_for_change(turn_, seen);
    if (stop_) return;
    if (!enter()) continue;
    take_tasks(thread);
    leave();
  }
}

}  // namespace trireme

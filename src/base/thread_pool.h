// A fixed set of threads that run numbered tasks. A task's result must depend on its number only, so results do not depend on
// how many threads there are or which of them took it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme {

class ThreadPool {
 public:
  // `threads` counts the caller, who works too. 0: as many as this process may use.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(i) for every i in [0, count) and returns when all are done. Allocates nothing. Not reentrant.
  //
  // The caller never waits for a worker that has not begun: where other programs keep a worker off its core, the caller does its
  // share. Whoever waits spins briefly and then sleeps, so that the core is free for the thread that is waited for.
  template <class Task>
  void run(int64_t count, Task&& task) {
    run_erased(
        count, [](void* context, int64_t i, int) { (*static_cast<std::remove_reference_t<Task>*>(context))(i); }, &task);
  }

  // As run, and tells the task which thread it is on, for buffers that belong to a thread: task(i, thread), thread < size().
  template <class Task>
  void run_on_threads(int64_t count, Task&& task) {
    run_erased(
        count, [](void* context, int64_t i, int thread) { (*static_cast<std::remove_reference_t<Task>*>(context))(i, thread); },
        &task);
  }

 private:
  using ErasedTask = void (*)(void*, int64_t, int);
  void run_erased(int64_t count, ErasedTask task, void* context);
  void take_tasks(int thread);
  void stop();
  void work(int thread);
  bool enter();  // false: the run is over
  void leave();
  void close_and_wait();  // lets no more workers in and waits for those inside

  static constexpr size_t kCacheLine = 64;

  std::vector<std::thread> workers_;
  alignas(kCacheLine) std::atomic<uint32_t> turn_{0};  // counts runs; idle workers wait for it to change
  alignas(kCacheLine) std::atomic<uint32_t> gate_{0};  // kOpen while a run takes workers in, and how many are inside
  alignas(kCacheLine) std::atomic<int64_t> next_{0};
  // Stable while the gate is open or a worker is inside.
  alignas(kCacheLine) int64_t count_ = 0;
  ErasedTask task_ = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stop_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace trireme

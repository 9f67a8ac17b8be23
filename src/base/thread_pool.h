// A fixed set of threads that run numbered tasks. A task's result must depend only on its number, so that results do not depend
// on the number of threads or on which thread runs it.
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
  // `threads` includes the caller, which works too. 0: as many as this process may use.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(i) for every i in [0, count) and returns when all are done. Allocates nothing. Not reentrant.
  //
  // The caller never waits for a worker that has not started: if other programs keep a worker off its core, the caller does its
  // share. A waiting thread spins briefly and then sleeps, so that its core is free.
  template <class Task>
  void run(int64_t count, Task&& task) {
    run_erased(
        count, [](void* context, int64_t i, int) { (*static_cast<std::remove_reference_t<Task>*>(context))(i); }, &task);
  }

  // Like run, but also passes the thread's index, for per-thread buffers: task(i, thread), thread < size().
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
  bool enter();  // false: the run has ended
  void leave();
  void close_and_wait();  // admits no more workers and waits for those inside

  static constexpr size_t kCacheLine = 64;

  std::vector<std::thread> workers_;
  alignas(kCacheLine) std::atomic<uint32_t> turn_{0};  // number of runs; idle workers wait for it to change
  alignas(kCacheLine) std::atomic<uint32_t> gate_{0};  // kOpen while a run admits workers, plus the number of workers inside
  alignas(kCacheLine) std::atomic<int64_t> next_{0};
  // Constant while the gate is open or a worker is inside.
  alignas(kCacheLine) int64_t count_ = 0;
  ErasedTask task_ = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stop_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace trireme

// A fixed set of threads that run numbered tasks. A task's result must depend on its number only, so results do not depend on
// how many threads there are or which of them took it.
#pragma once

#include <atomic>
#include <condition_variable>
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
  void work(int thread);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::atomic<uint64_t> generation_{0};  // one more for every run; workers spin on it for a while, then sleep
  std::atomic<int> working_{0};
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stop_{false};
  int64_t count_ = 0;
  ErasedTask task_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace trireme

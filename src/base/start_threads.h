// Threads, or one line that says that there are no more.
#pragma once

#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace trireme {

// Failure if the system gives no thread.
template <class Thread = std::thread, class Work>
Thread start_thread(Work&& work) {
  try {
    return Thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw Failure("the system gives no more threads ({}); raise its limit (ulimit -u) or use fewer threads and ranks",
                  error.code().message());
  }
}

// Adds `count` threads that each call work(i). If the system does not give them all, calls stop(), which must make those that
// were started return, joins them and throws a Failure: a thread that is not joined would abort the program.
template <class Thread, class Work, class Stop>
void start_threads(std::vector<Thread>& threads, int64_t count, const Work& work, const Stop& stop) {
  threads.reserve(static_cast<size_t>(count));
  try {
    for (int64_t i = 0; i < count; ++i) threads.push_back(start_thread<Thread>([work, i] { work(i); }));
  } catch (...) {
    stop();
    for (Thread& thread : threads) thread.join();
    threads.clear();
    throw;
  }
}

}  // namespace trireme

// Starts threads; failing to do so is an error of one line.
#pragma once

#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace trireme {

// Failure if the system cannot start a thread.
template <class Thread = std::thread, class Work>
Thread start_thread(Work&& work) {
  try {
    return Thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw Failure("the system gives no more threads ({}); raise its limit (ulimit -u) or use fewer threads and ranks",
                  error.code().message());
  }
}

// Adds `count` threads that each call work(i). If some cannot be started, calls stop(), which must make the started threads
// return, joins them and throws a Failure: destroying an unjoined thread would abort the program.
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

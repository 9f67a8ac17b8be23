#pragma once

#include <ctime>

namespace trireme::prepare {

// CPU time of the calling thread, user and system, in seconds.
inline double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace trireme::prepare

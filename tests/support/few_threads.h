// A process that gets no more than some threads.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace trireme {

// Runs `work` in a process that has room for some stacks only; true if nothing that it expects failed.
template <class Work>
bool passes_with_few_threads(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto room = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (int64_t{256} << 20));
    const rlimit limit{.rlim_cur = room, .rlim_max = room};
    ::setrlimit(RLIMIT_AS, &limit);
    work();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace trireme

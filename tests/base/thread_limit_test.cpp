// More threads than the system gives: a line for the user, not an aborted program.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/thread_pool.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

TEST(ThreadLimitTest, ThreadsThatCannotBeHadAreTold) {
  const pid_t child = ::fork();
  if (child == 0) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto room = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (int64_t{256} << 20));  // for some stacks
    const rlimit limit{.rlim_cur = room, .rlim_max = room};
    ::setrlimit(RLIMIT_AS, &limit);
    const std::string line = message_of<UserError>([] { ThreadPool pool(1000); });
    EXPECT_TRUE(contains(line, "this machine does not give 1000 threads"));
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace trireme

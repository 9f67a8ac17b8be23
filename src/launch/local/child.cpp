#include "launch/local/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "launch/local/stop_requests.h"

namespace trireme {
namespace {

constexpr int kCannotStart = 127;

std::vector<pid_t> children_of_this_process() {
  constexpr int64_t kMost = 1 << 20;
  std::vector<pid_t> found;
  try {
    std::istringstream words(read_file(fmt::format("/proc/self/task/{}/children", ::getpid()), kMost));
    for (pid_t process = 0; words >> process;) found.push_back(process);
  } catch (const Failure&) {
    found.clear();  // a kernel without this file: the ranks themselves are known anyway
  }
  return found;
}

}  // namespace

pid_t start_child(const std::vector<std::string>& command, const std::vector<EnvironmentVariable>& environment, int output,
                  int input) {
  const std::vector<char*> words = argv_of(command);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw Failure("{} cannot be started: {}", command.front(), std::strerror(errno));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kCannotStart);
  ::setpgid(0, 0);
  StopRequests::restore_signals();
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(input >= 0 ? input : nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  for (const EnvironmentVariable& variable : environment) ::setenv(variable.name.c_str(), variable.value.c_str(), 1);
  ::execvp(words.front(), words.data());
  fmt::print(stderr, "trireme: {} cannot be started: {}\n", command.front(), std::strerror(errno));
  std::fflush(stderr);
  ::_exit(kCannotStart);
}

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // A rank takes three descriptors: its output, its log, and the notice of its end.
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1 << 16);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

void kill_orphans(const std::vector<Child>& known) {
  // Killing a child makes its own children ours, so this is repeated until nothing new comes.
  for (bool found_any = true; found_any;) {
    found_any = false;
    for (const pid_t process : children_of_this_process()) {
      if (std::ranges::find(known, process, &Child::process) != known.end()) continue;
      ::kill(process, SIGKILL);
      while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) continue;
      found_any = true;
    }
  }
}

}  // namespace trireme

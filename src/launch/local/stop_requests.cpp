#include "launch/local/stop_requests.h"

#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

}  // namespace

StopRequests::StopRequests(LeashKind kind, int leash) : kind_(kind), leash_(kind == LeashKind::none ? -1 : leash) {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signals_ < 0) throw Failure("signals cannot be watched: {}", std::strerror(errno));
  // A log beyond the limit on file sizes, or a follower that is gone, is an error of that write and nothing more.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

StopRequests::~StopRequests() { ::close(signals_); }

void StopRequests::restore_signals() {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGXFSZ, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
}

void StopRequests::add_to(std::vector<pollfd>& waiting) const {
  waiting.push_back({signals_, POLLIN, 0});
  if (leash_ >= 0) waiting.push_back({leash_, POLLIN, 0});
}

void StopRequests::request(int signal) {
  if (stops_++ == 0) signal_ = signal;
}

void StopRequests::take() {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGUSR1) wants_stacks_ = true;
    if (signal != SIGUSR1 && signal != SIGCHLD) request(signal);
  }
  if (leash_ < 0) return;
  pollfd waiting{leash_, POLLIN, 0};
  if (::poll(&waiting, 1, 0) <= 0) return;
  std::array<char, 64> bytes{};
  const ssize_t count = ::read(leash_, bytes.data(), bytes.size());
  if (count > 0) is_followed_ = true;
  if (count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN))) return;
  leash_ = -1;
  if (kind_ == LeashKind::lifeline) {
    request(SIGKILL);
    request(SIGKILL);
  } else if (is_followed_ && stops_ == 0) {
    request(SIGHUP);
  }
}

bool StopRequests::take_stack_request() { return std::exchange(wants_stacks_, false); }

void StopRequests::tell(const std::string& line) const {
  if (kind_ == LeashKind::follower && leash_ >= 0) ::send(leash_, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace trireme

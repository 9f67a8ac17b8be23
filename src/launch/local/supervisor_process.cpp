#include "launch/local/supervisor_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/subprocess.h"
#include "launch/local/supervisor.h"

namespace trireme {
namespace {

constexpr int kLeash = 3;            // descriptor of the socket in the supervisor
constexpr int kBeginLimit = 60'000;  // ms, on a machine that is very busy
constexpr size_t kLongestNotice = 4096;
constexpr std::array kPassed = {SIGINT, SIGTERM, SIGHUP};

std::array<std::atomic<int>, kPassed.size()> arrived;

void note_signal(int signal) {
  for (size_t i = 0; i < kPassed.size(); ++i)
    if (kPassed[i] == signal) arrived[i].fetch_add(1, std::memory_order_relaxed);
}

void keep_signals() {
  for (const int signal : kPassed) {
    struct sigaction old {};
    ::sigaction(signal, nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;  // as nohup does
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

[[noreturn]] void become_supervisor(const std::vector<std::string>& command, int socket) {
  const std::vector<char*> words = argv_of(command);
  ::setsid();
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, descriptor);
  if (socket == kLeash)
    ::fcntl(socket, F_SETFD, 0);
  else
    ::dup2(socket, kLeash);
  ::execv(words.front(), words.data());
  ::_exit(127);
}

}  // namespace

std::vector<std::string> supervisor_command(const std::filesystem::path& launch_file) {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "launch", "supervise", launch_file.string(),
          fmt::format("--leash={}", kLeash)};
}

SupervisorProcess::SupervisorProcess(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Failure("no socket for the supervisor: {}", std::strerror(errno));
  std::fflush(nullptr);
  keep_signals();
  const pid_t child = ::fork();
  if (child == 0) become_supervisor(command, ends[1]);
  ::close(ends[1]);
  socket_ = ends[0];
  if (child < 0) throw Failure("the supervisor cannot be started: {}", std::strerror(errno));
  id_ = identify(child).value_or(ProcessId{child, 0});
  std::array<char, kLongestNotice> bytes{};
  pollfd waiting{socket_, POLLIN, 0};
  ssize_t count = 0;
  while ((count = ::poll(&waiting, 1, kBeginLimit)) < 0 && errno == EINTR) continue;
  if (count > 0) count = ::recv(socket_, bytes.data(), bytes.size(), 0);
  const std::string answer(bytes.data(), count > 0 ? static_cast<size_t>(count) : 0);
  if (answer == kSupervisorReady) return;
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  throw Failure("{}", answer.empty() ? "the supervisor does not start: it ended without a word" : answer);
}

SupervisorProcess::~SupervisorProcess() {
  if (socket_ >= 0) ::close(socket_);
}

void SupervisorProcess::follow() {
  if (is_followed_) return;
  is_followed_ = true;
  ::send(socket_, "f", 1, MSG_NOSIGNAL);
}

void SupervisorProcess::pass_signals() {
  for (size_t i = 0; i < kPassed.size(); ++i)
    for (int left = arrived[i].exchange(0); left > 0; --left) {
      fmt::print(stderr, "SIG{}: passed on to the ranks, which save and leave; once more kills them\n",
                 ::sigabbrev_np(kPassed[i]));
      send_signal(id_, kPassed[i]);
    }
}

void SupervisorProcess::print_notices() {
  std::array<char, kLongestNotice> bytes{};
  for (ssize_t count = 0; (count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;)
    fmt::print(stderr, "{}\n", std::string_view(bytes.data(), static_cast<size_t>(count)));
}

}  // namespace trireme

#include "base/stack_dump.h"

#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "base/error.h"

namespace trireme {
namespace {

// State of the signal handler; set before the handler is installed.
std::array<char, 4096> dump_path{};
pthread_t main_thread;

constexpr int kSignals[] = {SIGUSR1, SIGQUIT};

void write_text(int descriptor, const char* text) {
  [[maybe_unused]] const ssize_t ignored = ::write(descriptor, text, std::strlen(text));
}

// Must use only async-signal-safe functions.
void dump(int signal) {
  if (::pthread_equal(::pthread_self(), main_thread) == 0) {
    ::pthread_kill(main_thread, signal);
    return;
  }
  const int saved_errno = errno;
  const int descriptor = ::open(dump_path.data(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor >= 0) {
    std::array<void*, 100> frames{};
    write_text(descriptor, "stack, the innermost function first; c++filt and addr2line make the names readable\n");
    ::backtrace_symbols_fd(frames.data(), ::backtrace(frames.data(), static_cast<int>(frames.size())), descriptor);
    write_text(descriptor, "\n");
    ::close(descriptor);
  }
  errno = saved_errno;
}

}  // namespace

StackDump::StackDump(const std::filesystem::path& path) {
  const std::string text = path.string();
  if (text.size() >= dump_path.size()) throw UserError("the path {} is too long for a file; use a shorter one", text);
  *std::ranges::copy(text, dump_path.begin()).out = '\0';
  main_thread = ::pthread_self();
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // loads what backtrace needs now, because a handler may not
  struct sigaction action {};
  action.sa_handler = dump;
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

void StackDump::request() {
  if (dump_path.front() != '\0') dump(kSignals[0]);
}

StackDump::~StackDump() {
  dump_path.front() = '\0';
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

}  // namespace trireme

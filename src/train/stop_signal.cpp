#include "train/stop_signal.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>

namespace trireme {
namespace {

volatile std::sig_atomic_t received_signal = 0;
volatile std::sig_atomic_t leaves_at_once = 0;
volatile std::sig_atomic_t early_status = 0;
volatile std::sig_atomic_t early_speaks = 0;

enum class WhenIgnored : bool { take, leave };

struct Noticed {
  int number;
  const char* name;
  WhenIgnored when_ignored = WhenIgnored::take;
};
constexpr Noticed kNoticed[] = {
    {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP", WhenIgnored::leave}, {SIGUSR2, "SIGUSR2"}};

// Only what a signal handler may call.
void write_text(const char* text) { [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text)); }

void react(int signal) {
  if (leaves_at_once == 0) {
    received_signal = signal;
    return;
  }
  if (early_speaks != 0) {
    write_text("trireme: ");
    write_text(signal_name(signal));
    write_text(" before the first step: there is nothing to save; start again\n");
  }
  ::_exit(early_status);
}

void install() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = react;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const Noticed& signal : kNoticed) {
    struct sigaction before {};
    sigaction(signal.number, nullptr, &before);
    if (signal.when_ignored == WhenIgnored::leave && before.sa_handler == SIG_IGN) continue;
    sigaction(signal.number, &action, nullptr);
  }
}

bool has_no_reader(int descriptor) {
  if (::isatty(descriptor) == 0 && errno == EIO) return true;  // a terminal that hung up
  pollfd entry{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

StopSignal::StopSignal() {
  leaves_at_once = 0;
  install();
}

StopSignal::StopSignal(LeaveAtOnce early) {
  early_status = early.status;
  early_speaks = early.speaks ? 1 : 0;
  leaves_at_once = 1;
  install();
}

StopSignal::~StopSignal() {
  for (const Noticed& signal : kNoticed) {
    struct sigaction action {};
    sigaction(signal.number, nullptr, &action);
    if (action.sa_handler == react) std::signal(signal.number, SIG_DFL);
  }
}

void StopSignal::notice() { leaves_at_once = 0; }
int StopSignal::number() const { return received_signal; }
const char* StopSignal::received() const { return received_signal == 0 ? nullptr : signal_name(received_signal); }

const char* signal_name(int number) {
  for (const Noticed& signal : kNoticed)
    if (signal.number == number) return signal.name;
  return "a signal";
}

void drop_output_nobody_reads() {
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0) return;
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO})
    if (has_no_reader(descriptor)) ::dup2(nothing, descriptor);
  ::close(nothing);
}

}  // namespace trireme

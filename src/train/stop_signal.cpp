#include "train/stop_signal.h"

#include <csignal>

namespace trireme {
namespace {

volatile std::sig_atomic_t received_signal = 0;

void notice(int signal) { received_signal = signal; }

struct Noticed {
  int number;
  const char* name;
};
constexpr Noticed kNoticed[] = {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR2, "SIGUSR2"}};

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = notice;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const Noticed& signal : kNoticed) sigaction(signal.number, &action, nullptr);
}

StopSignal::~StopSignal() {
  for (const Noticed& signal : kNoticed) std::signal(signal.number, SIG_DFL);
}

int StopSignal::number() const { return received_signal; }
const char* StopSignal::received() const { return received_signal == 0 ? nullptr : signal_name(received_signal); }

const char* signal_name(int number) {
  for (const Noticed& signal : kNoticed)
    if (signal.number == number) return signal.name;
  return "a signal";
}

}  // namespace trireme

#include "train/stop_signal.h"

#include <csignal>

namespace trireme {
namespace {

volatile std::sig_atomic_t received_signal = 0;

void notice(int signal) { received_signal = signal; }

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = notice;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

StopSignal::~StopSignal() {
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
}

const char* StopSignal::received() const {
  if (received_signal == 0) return nullptr;
  return received_signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

}  // namespace trireme

#include "launch/local/process_id.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <sstream>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

struct ProcessStat {
  char state = 0;
  uint64_t started = 0;
};

// /proc/PID/stat: "4711 (name) S ..."; the name may hold anything, also ") S ". The start time is the 22nd field.
std::optional<ProcessStat> stat_of(pid_t process) {
  constexpr int64_t kMost = 1 << 16;
  constexpr int kFieldsBetween = 18;
  std::string text;
  try {
    text = read_file(fmt::format("/proc/{}/stat", process), kMost);
  } catch (const Failure&) {
    return std::nullopt;
  }
  const size_t end_of_name = text.rfind(") ");
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 2));
  ProcessStat found;
  fields >> found.state;
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  fields >> found.started;
  return fields ? std::optional(found) : std::nullopt;
}

}  // namespace

std::string text_of(const ProcessId& id) { return fmt::format("{}@{}", id.process, id.started); }

std::optional<ProcessId> parse_process(const std::string& text) {
  ProcessId id;
  std::istringstream words(text);
  char at = 0;
  words >> id.process >> at >> id.started;
  if (!words || at != '@' || id.process <= 0) return std::nullopt;
  return id;
}

std::optional<ProcessId> identify(pid_t process) {
  const auto stat = stat_of(process);
  return stat ? std::optional(ProcessId{process, stat->started}) : std::nullopt;
}

bool is_running(const ProcessId& id) {
  const auto stat = stat_of(id.process);
  return stat && stat->started == id.started && stat->state != 'Z' && stat->state != 'X';
}

bool send_signal(const ProcessId& id, int signal) {
  // The descriptor is opened first: from then on the number cannot come to mean another process.
  const int descriptor = open_process(id.process);
  if (descriptor < 0) return false;
  const bool sent = is_running(id) && ::syscall(SYS_pidfd_send_signal, descriptor, signal, nullptr, 0) == 0;
  ::close(descriptor);
  return sent;
}

char process_state(pid_t process) {
  const auto stat = stat_of(process);
  return stat ? stat->state : '\0';
}

int open_process(pid_t process) { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

}  // namespace trireme

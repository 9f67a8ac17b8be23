// A process by its number and start time, so that a number that the system has given to another process is never signalled.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

struct ProcessId {
  pid_t process = 0;
  uint64_t started = 0;  // clock ticks after the start of the machine
  bool operator==(const ProcessId&) const = default;
};

std::string text_of(const ProcessId& id);  // "4711@183355"
std::optional<ProcessId> parse_process(const std::string& text);

std::optional<ProcessId> identify(pid_t process);   // nothing: there is no such process
bool is_running(const ProcessId& id);               // false also for one that has ended and was not waited for
bool send_signal(const ProcessId& id, int signal);  // false: it has ended

// Its state as the kernel says: 'R', 'S', 'D', 'T' (stopped by a signal), 'Z'; 0: there is none.
char process_state(pid_t process);

// A descriptor that becomes readable when the process ends; -1: there is none.
int open_process(pid_t process);

}  // namespace trireme

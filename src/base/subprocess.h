// Runs other programs: finds them on PATH, starts them with an argument list and no shell, waits for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Returns the file that a shell would start for this name; empty if there is none.
std::string find_program(const std::string& name);

// The words as the system takes them, with a null pointer last. They must outlive the result.
std::vector<char*> argv_of(const std::vector<std::string>& words);

// This process becomes the program. Failure if it cannot be started.
[[noreturn]] void become_program(const std::vector<std::string>& arguments);

struct CommandOutput {
  int status = 0;      // exit status; 128 + signal number if a signal ended it
  std::string output;  // its stdout
  std::string errors;  // the end of its stderr
};

// Waits for the program to end. If `stop` becomes true, the program receives SIGTERM. Failure if it cannot be started or writes
// more than `output_limit` bytes to stdout.
CommandOutput run_command(const std::vector<std::string>& arguments, int64_t output_limit,
                          const std::atomic<bool>* stop = nullptr);

}  // namespace trireme

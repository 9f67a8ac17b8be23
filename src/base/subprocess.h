// Other programs: found on PATH, started with a list of arguments and no shell in between, waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// The file that a shell would start for this name; empty if there is none.
std::string find_program(const std::string& name);

struct CommandOutput {
  int status = 0;      // its exit status; 128 + the signal if one ended it
  std::string output;  // what it wrote to stdout
  std::string errors;  // the last of what it wrote to stderr
};

// Waits for it to end. When `stop` turns true it is asked to (SIGTERM). More than `output_limit` bytes on stdout, and a program
// that cannot be started, are Failures.
CommandOutput run_command(const std::vector<std::string>& arguments, int64_t output_limit,
                          const std::atomic<bool>* stop = nullptr);

}  // namespace trireme

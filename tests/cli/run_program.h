// Runs build/trireme as a user would, and gives back what it said.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace trireme {

struct ProgramResult {
  int status = 0;
  std::string output;  // stdout and stderr together
};

inline ProgramResult run_shell(const std::string& command) {
  FILE* pipe = ::popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  ProgramResult result;
  std::array<char, 4096> buffer{};
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) result.output.append(buffer.data(), count);
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

inline ProgramResult run_program(const std::string& arguments, const std::string& environment = "") {
  return run_shell(environment + " " + TRIREME_BINARY + " " + arguments);
}

// Whether a process handles a signal by now, as the kernel says.
inline bool handles(pid_t process, int signal) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("SigCgt:")) return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  return false;
}

// Text whose long lines were wrapped under their label, with these lines joined again.
inline std::string unwrapped(std::string text) {
  constexpr std::string_view kBreak = "\n        ";
  for (size_t at = text.find(kBreak); at != std::string::npos; at = text.find(kBreak, at)) text.replace(at, kBreak.size(), " ");
  return text;
}

inline int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace trireme

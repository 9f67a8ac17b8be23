#include "launch/slurm/slurm_command.h"

#include <fmt/format.h>

#include <csignal>

namespace trireme {

CommandOutput run_slurm(const std::vector<std::string>& words, int64_t seconds) {
  constexpr int64_t kMostOutput = 256 << 20;  // a cluster of thousands of nodes
  std::vector<std::string> limited = {"timeout", "--kill-after=2", std::to_string(seconds)};
  limited.insert(limited.end(), words.begin(), words.end());
  return run_command(limited, kMostOutput);
}

std::string complaint_of(const CommandOutput& result) {
  if (result.status == kSlurmTimedOut && result.errors.empty()) return "no answer";
  const std::string& text = result.errors.empty() ? result.output : result.errors;
  std::string line = text.substr(0, text.find('\n'));
  for (const char* word : {"error: ", "error "})
    if (const size_t at = line.find(word); at != std::string::npos) {
      line = line.substr(at + std::string_view(word).size());
      break;
    }
  return line.empty() ? fmt::format("exit status {}", result.status) : line;
}

std::string requeue_job(const std::string& id) {
  constexpr int kTerminated = 128 + SIGTERM;  // scontrol itself, by the requeue that it has just asked for
  const CommandOutput result = run_slurm({"scontrol", "requeue", id});
  if (result.status == 0 || result.status == kTerminated) return "";
  const std::string complaint = complaint_of(result);
  // Slurm has put the job back by itself, since it lost a node.
  return complaint.find("pending execution") != std::string::npos ? "" : complaint;
}

void start_requeued_job(const std::string& id) {
  // A start in the second of the requeue is refused by the nodes: they take its credential for the one that was just revoked.
  constexpr int kStartDelaySeconds = 3;
  run_slurm({"scontrol", "update", "JobId=" + id, fmt::format("StartTime=now+{}", kStartDelaySeconds)});
}

}  // namespace trireme

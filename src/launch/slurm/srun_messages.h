// What srun says about its ranks: which one failed first, on which node, and which nodes are gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A line of srun --label: of a rank, or of srun itself.
struct LabelledLine {
  std::optional<int64_t> rank;
  std::string_view text;
};
LabelledLine parse_labelled_line(std::string_view line);

class SrunMessages {
 public:
  struct Failed {
    int64_t rank = -1;  // -1: no rank failed, but a node or the start of the step
    std::string node;
    int status = 0;  // exit status; 128 + signal number if a signal ended it
  };

  void note(const LabelledLine& line);

  // The first rank that failed; those that srun ended because of it come later.
  const std::optional<Failed>& first_failure() const { return first_; }
  const std::vector<std::string>& lost_nodes() const { return lost_nodes_; }
  // Whether the step, or a rank of it, could not be started. srun may end with status 0 all the same.
  bool could_not_start() const { return could_not_start_; }
  // Why Slurm itself ended the step: "" for a user's scancel, else "TIME LIMIT", "JOB REQUEUE", "PREEMPTION", "NODE FAILURE".
  const std::optional<std::string>& cancelled() const { return cancelled_; }
  // The error line of the program itself if a rank printed one, else "rank 1 on n2 was killed by signal 9"; empty if nothing
  // failed.
  std::string reason() const;

 private:
  void note_tasks(std::string_view message);
  void note_lost(std::string_view nodes);

  std::optional<Failed> first_;
  std::vector<std::string> lost_nodes_;
  std::optional<std::string> cancelled_;
  std::string start_error_, said_;
  bool could_not_start_ = false;
};

}  // namespace trireme

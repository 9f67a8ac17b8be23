// attempts.json in the folder of a job: every attempt of a job that restarts itself, and whether another one is worth it. Local
// supervisors and Slurm's batch scripts keep the same log, so that it also counts attempts before a requeue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct Attempt {
  int64_t number = 1;  // from 1
  std::string started, ended;
  int64_t first_step = -1, last_step = -1;  // newest checkpoint at its start and end; -1: none
  std::optional<int> exit_status;           // nothing: it runs, or its supervisor was killed
  std::string reason;                       // one line: "rank 3 was killed by signal 9"
};

enum class NextAction : uint8_t { finish, restart };

struct AttemptVerdict {
  NextAction action = NextAction::finish;
  int exit_status = 0;  // of the launch, if it finishes
  std::string line;     // why, for the log: "3 attempts without a new checkpoint; not tried again"
};

class AttemptLog {
 public:
  // Continues the log of `folder` if there is one. Progress is a new checkpoint in `run_folder`. `most_without_progress` attempts
  // in a row without one end the launch with kDoNotRetry; 0: the first failure ends it with its own status.
  AttemptLog(std::filesystem::path folder, std::filesystem::path run_folder, int64_t most_without_progress);

  const std::vector<Attempt>& attempts() const { return attempts_; }
  int64_t begin();  // records a new attempt and returns its number
  // Records the end of the current attempt. Success, a saved stop, an error of the user and kDoNotRetry finish the launch with
  // that status; other failures are tried again while there is progress. A log that cannot be written (full disk) does not
  // matter.
  AttemptVerdict end(int exit_status, const std::string& reason);

 private:
  int64_t attempts_without_progress() const;
  void write() const;

  std::filesystem::path folder_, run_folder_;
  int64_t most_without_progress_;
  std::vector<Attempt> attempts_;
};

// The log of a folder; empty if it has none or it is damaged.
std::vector<Attempt> read_attempts(const std::filesystem::path& folder);

}  // namespace trireme

// How a Slurm job ended, in its folder: Slurm itself forgets jobs after a few minutes where it keeps no accounting.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme {

struct SlurmJobEnd {
  std::string job;  // Slurm's id
  int exit_status = 0;
  bool was_stopped = false;  // cancelled, not failed
  std::string reason;        // one line
};

// end.json, or task-00003.end.json of a task of an array.
std::filesystem::path job_end_path(const std::filesystem::path& folder, std::optional<int64_t> task);
// A full disk only costs the file; the log and Slurm's exit status are still there.
void write_job_end(const std::filesystem::path& path, const SlurmJobEnd& end);
// Nothing if the file is missing, damaged or of another job.
std::optional<SlurmJobEnd> read_job_end(const std::filesystem::path& path, const std::string& job);

}  // namespace trireme

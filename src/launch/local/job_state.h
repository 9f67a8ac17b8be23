// status.json in the folder of a local job: how it is, as its supervisor last wrote it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launch/launch_target.h"

namespace trireme {

struct JobState {
  JobPhase phase = JobPhase::waiting;
  std::string detail;
  std::optional<int> exit_status;
  std::string host;
  std::string supervisor;  // ProcessId
};

// Never throws: on a full disk the file is written in place, for which its blocks suffice.
void write_job_state(const std::filesystem::path& folder, const JobState& state);
std::optional<JobState> read_job_state(const std::filesystem::path& folder);  // nothing: none, or damaged

}  // namespace trireme

// From the jobs of a launch to what its supervisor starts, and why.
#pragma once

#include <filesystem>
#include <vector>

#include "launch/launch_target.h"
#include "launch/local/local_launch.h"

namespace trireme {

inline constexpr const char* kAttemptsFile = "attempts.json";

struct LocalPlan {
  LocalLaunch launch;
  std::vector<LaunchChoice> choices;
};

// Looks at this machine: its cores, GPUs and programs. UserError if it cannot run these jobs. Changes nothing.
LocalPlan plan_local(const std::vector<Job>& jobs, const LaunchOptions& options);

// Where a job keeps its logs and state: the folder of the launch, or one of its own within it for other stages than the training
// and for the pods of an indexed job after the first, which may share the folder.
std::filesystem::path local_folder(const std::filesystem::path& folder, JobStage stage);
std::filesystem::path launch_file_of(const std::vector<Job>& jobs);

}  // namespace trireme

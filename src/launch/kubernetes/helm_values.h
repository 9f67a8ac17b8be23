// The values of the chart charts/trireme for a job. One Helm release per job.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/tree.h"
#include "launch/job.h"
#include "launch/launch_options.h"

namespace trireme {

// Where a launch is in its pods.
struct PodFolders {
  std::filesystem::path local;  // the results folder on this machine, absolute
  std::string results;          // in the pods
  std::string copy;             // where it is copied to; empty: nowhere
  bool is_shared = false;       // all pods see the same folder

  // The name of a local path of a launch in the pods.
  std::string in_pod(const std::filesystem::path& path) const;
};

// UserError for a bucket, claim or results folder that cannot be used.
PodFolders pod_folders(const LaunchOptions& options);

// The image as a container runtime writes it. Takes docker://IMAGE and enroot's REGISTRY#IMAGE. UserError for files and names
// that no registry has.
std::string registry_image(const std::string& image);

// The values that differ from those of the chart; the recipe is not among them. `all` are the jobs of the launch. UserError for
// options that pods cannot have.
Tree helm_values(const Job& job, const std::vector<Job>& all, const LaunchOptions& options);

bool is_jobset(const Job& job, const LaunchOptions& options);

}  // namespace trireme

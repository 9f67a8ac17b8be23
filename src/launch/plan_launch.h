// From a request to the jobs of a launch: every check that needs no cluster happens here, before anything is submitted.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "launch/launch_file.h"
#include "launch/launch_target.h"

namespace trireme {

struct SweepPoint {
  std::string job;                     // its name; empty: not run
  std::vector<std::string> overrides;  // what distinguishes it
  std::string reason;                  // why it is not run
};

struct LaunchPlan {
  std::string name;
  std::filesystem::path folder;  // RESULTS/NAME, absolute
  LaunchRequest request;         // with the options of the site and of the launcher's settings
  std::vector<Job> jobs;
  std::vector<SubmissionFile> files;  // resolved recipes
  std::vector<LaunchChoice> choices;
  std::vector<SweepPoint> sweep;  // empty without a sweep
};

// UserError for anything the recipe check finds: settings, ranks, memory of the named GPU, stages, names. Reads the site file and
// changes nothing.
LaunchPlan plan_launch(LaunchRequest request, const std::string& site_file);

// Whether this process is in a pod of an indexed job. Its pods share one name and folder, and a pod that is started again
// continues.
bool is_in_pod();

}  // namespace trireme

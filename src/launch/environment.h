// The environment of the ranks: network profile, site, options; and the profiler around them.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "launch/launch_file.h"
#include "launch/launch_target.h"

namespace trireme {

// Later ones win: the network profile, then env of launcher, site and command line. A variable of the profile that the user's own
// environment has keeps the user's value, and `choices` says so. UserError for malformed names.
std::vector<EnvironmentVariable> launch_environment(const LaunchRequest& request, std::vector<LaunchChoice>& choices);

// The mounts of the options: SOURCE:DESTINATION, or one path for both; and the data folder.
std::vector<Mount> mounts_of(const LaunchOptions& options);

// What precedes the command of a rank, so that the ranks of model.nsys_profile run under nsys and the others as they are.
std::vector<std::string> profiler_command(const Job& job, const Settings& settings);

}  // namespace trireme

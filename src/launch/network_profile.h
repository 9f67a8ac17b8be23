// Network profiles: the environment variables that a network needs, one small YAML file each (networks/*.yaml).
#pragma once

#include <string>
#include <vector>

#include "launch/job.h"

namespace trireme {

struct NetworkProfile {
  std::string name, summary;
  std::vector<EnvironmentVariable> environment;
};

// A shipped profile by its name, or a file. A UserError names the shipped ones.
NetworkProfile load_network_profile(const std::string& name_or_path);
std::vector<std::string> shipped_networks();

}  // namespace trireme

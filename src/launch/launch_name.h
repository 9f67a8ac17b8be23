// The names of launches.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// gpt3-175b16 of gpt3/175b on 16 nodes. Lower case letters, digits and dashes, so that every target takes it.
std::string default_name(const std::string& recipe, int64_t nodes);
// UserError unless the name can be a folder, a Slurm job and a Kubernetes object.
void require_launch_name(const std::string& name);

}  // namespace trireme

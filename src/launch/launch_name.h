// The names of launches.
#pragma once

#include <cstdint>
#include <string>

#include "launch/launch_options.h"

namespace trireme {

// gpt3-175b16 of gpt3/175b on 16 nodes, gpt3-fp8-16 of gpt3/fp8. Every target takes it.
std::string default_name(const std::string& recipe, int64_t nodes);
// UserError unless the name can be a folder and a job of the target.
void require_launch_name(const std::string& name, TargetKind target);

}  // namespace trireme

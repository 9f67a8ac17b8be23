// Variables of the user's environment that stand for options, as in the scripts that users bring.
#pragma once

#include <vector>

#include "launch/launch_file.h"
#include "launch/launch_target.h"

namespace trireme {

// The value of a variable; nullptr if it is not set or empty.
const char* user_variable(const char* name);

// Whether ENABLE_NSYS_PROFILE asks for profiles of all ranks of the first node.
bool profiles_first_node();

// What the scripts of AWS users set: MODEL_NAME and MODEL_SIZE (the recipe), NODES, MAX_STEPS, IMAGE, JOB_NAME, JOB_SUFFIX; and
// ENABLE_NSYS_PROFILE. Fills what the request does not have. UserError if both differ.
std::vector<LaunchChoice> apply_environment(LaunchRequest& request);

}  // namespace trireme

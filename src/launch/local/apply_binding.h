// Puts this process on its cores.
#pragma once

#include "launch/local/local_launch.h"

namespace trireme {

// Cores that are not there (the machine has changed, or the container has fewer) leave the process as it is.
void apply_binding(const RankBinding& binding);

}  // namespace trireme

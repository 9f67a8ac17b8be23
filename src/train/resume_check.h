// Whether a run that continues from a checkpoint is still the same run.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// "model.optim.lr=0.001 (now 0.002)" for every setting that changes the mathematics of training and that both recipes have with
// other values. Layout, logging, checkpoints and the length of the run do not count. Both recipes are YAML, every setting in it.
std::vector<std::string> changed_mathematics(const std::string& saved, const std::string& wanted);

}  // namespace trireme

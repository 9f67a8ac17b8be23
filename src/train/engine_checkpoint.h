// What of an engine a checkpoint holds: masters and Adam moments, each under its parameter's global name.
#pragma once

#include "train/checkpoint.h"
#include "train/engine.h"

namespace trireme {

// The parameter itself (its f32 master), and its moments under first_moment.<name> and second_moment.<name>.
std::vector<CheckpointTensor> checkpoint_tensors(const Engine& engine);

}  // namespace trireme

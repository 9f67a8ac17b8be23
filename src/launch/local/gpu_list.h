// Which GPUs the ranks of this machine use: local rank k the k-th.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct GpuList {
  std::string visible;           // CUDA_VISIBLE_DEVICES of every rank; empty: all GPUs of the machine
  std::vector<int64_t> of_rank;  // by local rank, as the machine numbers its GPUs; empty if that is not known (UUIDs, MIG)
};

// `option` is --gpus, `variable` CUDA_VISIBLE_DEVICES here (null: not set), `visible` the GPUs that CUDA shows here. UserError
// for lists that do not parse, name a GPU twice or one that is not there, or are too short.
GpuList choose_gpus(const std::string& option, const char* variable, int64_t visible, int64_t ranks);

}  // namespace trireme

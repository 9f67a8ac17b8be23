// A checkpoint of torch.distributed.checkpoint: `.metadata`, a pickle that says where each part of each tensor is, and files
// __RANK_N.distcp, in which each part is a file of torch.save.
#pragma once

#include <map>
#include <string>

#include "convert/torch/file_set.h"
#include "convert/torch/sharded_tensor.h"

namespace trireme {

// The tensors, by name, of the checkpoint in a folder of the files ("" or "model_weights/"). Failure if .metadata is damaged or
// names files that are not there. The files must stay as long as the tensors.
std::map<std::string, ShardedTensor> read_distributed_checkpoint(const FileSet& files, const std::string& folder);

}  // namespace trireme

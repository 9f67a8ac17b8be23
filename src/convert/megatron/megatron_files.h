// The files of a checkpoint of Megatron-LM or NeMo: where they are, what they say about the model, and the tensors of each rank.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convert/torch/file_set.h"
#include "convert/torch/sharded_tensor.h"
#include "convert/torch/torch_file.h"

namespace trireme {

class MegatronFiles {
 public:
  // Whether `named` is such a checkpoint: a folder with one, an archive, or a file of torch in one.
  static bool is_checkpoint(const std::filesystem::path& named);

  // Opens the newest checkpoint of a folder of Megatron's, one checkpoint, a .nemo archive, or the file of one rank, in which
  // case the files of the other ranks are found beside it. Reads what describes the tensors, and no tensors.
  explicit MegatronFiles(const std::filesystem::path& named);
  MegatronFiles(const MegatronFiles&) = delete;
  MegatronFiles& operator=(const MegatronFiles&) = delete;

  const FileSet& files() const { return files_; }
  std::string where() const { return files_.path().string(); }
  const char* format() const;  // "torch_dist", "mp_rank"

  // The layout in which it was saved. 1 for what a distributed checkpoint does not say.
  int64_t tensor_parallel() const { return tensor_parallel_; }
  int64_t pipeline_stages() const { return stages_; }
  double version() const { return version_; }  // of Megatron's checkpoints: 0, 1, 2, 3
  int64_t iteration() const { return iteration_; }
  int64_t updates() const { return updates_; }  // of the optimizer; skipped iterations have none

  // Megatron's arguments; nullptr: there are none.
  const PickleValue* arguments() const { return arguments_; }
  // The text of NeMo's model_config.yaml or hparams.yaml, and its name; empty: there is none.
  const std::string& config() const { return config_; }
  const std::string& config_name() const { return config_name_; }

  // By our name: the tensors of the tensor parallel ranks, in order. Of mp_rank files.
  using Shards = std::map<std::string, std::vector<TorchTensor>>;
  const Shards& shards() const { return shards_; }
  // By our name, "blocks.*.norm1.weight" for one whose first dimension is the layer. Of a distributed checkpoint.
  using Sharded = std::map<std::string, ShardedTensor>;
  const Sharded& sharded() const { return sharded_; }
  // The same of the optimizer's state, by the name of the state: "exp_avg", "exp_avg_sq", "fp32_param".
  const std::map<std::string, Sharded>& optimizer() const { return optimizer_; }
  bool has_optimizer_files() const { return has_optimizer_; }  // whether or not it can be read
  int64_t ignored() const { return ignored_; }                 // tensors that are no parameters

 private:
  struct RankFile {
    int64_t tensor_rank = 0, stage = 0;
    std::string name;
  };
  void find_files(const std::string& asked_file);
  std::vector<RankFile> rank_files(const std::string& asked_file) const;
  void read_ranks(const std::vector<RankFile>& files);
  void read_distributed(const std::string& folder);
  void read_facts(const TorchFile& file);
  void find_config();

  FileSet files_;
  std::vector<std::unique_ptr<TorchFile>> open_;
  bool is_distributed_ = false, has_optimizer_ = false;
  int64_t tensor_parallel_ = 1, stages_ = 1, iteration_ = 0, updates_ = 0, ignored_ = 0;
  double version_ = 0;
  const PickleValue* arguments_ = nullptr;
  std::string config_, config_name_;
  Shards shards_;
  Sharded sharded_;
  std::map<std::string, Sharded> optimizer_;
};

}  // namespace trireme

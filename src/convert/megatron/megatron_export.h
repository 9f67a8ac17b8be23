// trireme export --to megatron: a checkpoint as Megatron-LM stores one for ranks of its own layout.
#pragma once

#include <optional>

#include "convert/parameter_reader.h"
#include "convert/torch/torch_writer.h"
#include "tensor/dtype.h"

namespace trireme {

enum class MegatronNames : uint8_t { transformer_engine, local };  // of norms, as Megatron's --transformer-impl has them

struct MegatronExportOptions {
  std::optional<DType> dtype = {};  // of the weights; no value: the type used in training
  int64_t tensor_parallel = 1, stages = 1;
  MegatronNames names = MegatronNames::transformer_engine;
};

class MegatronExport {
 public:
  // Checks everything but the weights. UserError names the setting or option that Megatron does not have.
  MegatronExport(StoredCheckpoint checkpoint, const MegatronExportOptions& options);

  // Writes a new folder, one parameter at a time:
  //   latest_checkpointed_iteration.txt                "release": weights to start from
  //   release/mp_rank_XX[_XXX]/model_optim_rng.pt      the weights of each rank
  //   arguments.txt                                    the options of pretrain_gpt.py for this model
  void write(const std::filesystem::path& output) const;

  DType dtype() const { return dtype_; }
  int64_t parameters() const;
  int64_t files() const { return options_.tensor_parallel * options_.stages; }
  int64_t bytes() const;
  std::string arguments() const;  // "--num-layers 4 --hidden-size 128 ..."

 private:
  struct Part {
    std::string ours, theirs;
  };
  std::vector<Part> parts_of_stage(int64_t stage) const;
  Shape shape_in_rank(const std::string& ours) const;
  std::vector<std::pair<std::string, std::string>> options_of_model() const;
  void write_stage(const std::filesystem::path& folder, int64_t stage) const;
  void write_part(ParameterReader& reader, const Part& part, std::vector<TorchFileWriter>& ranks) const;
  std::vector<float> in_their_order(const std::string& name, std::span<const float> values) const;

  StoredCheckpoint checkpoint_;
  Settings settings_;
  MegatronExportOptions options_;
  DType dtype_ = DType::f32;
  int64_t padded_rows_ = 0;  // of the vocabulary
};

}  // namespace trireme

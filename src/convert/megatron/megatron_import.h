// trireme import of checkpoints of Megatron-LM and NeMo.
#pragma once

#include "convert/megatron/megatron_files.h"
#include "convert/megatron/megatron_settings.h"
#include "model/parameter_table.h"

namespace trireme {

struct MegatronImportOptions {
  std::string config;      // a YAML file of the model's settings; empty: what the checkpoint says
  int64_t vocabulary = 0;  // rows of the embedding that are not padding; 0: the tokenizer's, or all
};

class MegatronImport {
 public:
  // Checks the settings, and the name and shape of every tensor, before anything is written.
  MegatronImport(const std::filesystem::path& named, const MegatronImportOptions& options);

  // Writes a new folder as write_imported_run does. Returns a description of the tokenizer.
  std::string write(const std::filesystem::path& output) const;

  const ModelSettings& model() const { return model_.settings.model; }
  const MegatronFiles& files() const { return files_; }
  int64_t parameters() const;
  const char* stored_as() const { return stored_as_.c_str(); }  // "float32", ...
  int64_t rows_of_vocabulary() const { return rows_; }          // with padding
  bool has_optimizer() const { return has_optimizer_; }
  int64_t step() const { return has_optimizer_ ? files_.iteration() : 0; }
  // What the user should know, a line each.
  std::vector<std::string> notes() const;

 private:
  enum class RowOrder : uint8_t { ours, groups, split_last };
  struct Source {
    ShardedTensor tensor;
    Shape offset, extent;  // of the part that is the parameter
    RowOrder order = RowOrder::ours;
  };
  using Sources = std::map<std::string, Source>;

  int64_t count_vocabulary(const MegatronImportOptions& options) const;
  void read_facts(const MegatronImportOptions& options);
  ShardedTensor merge(const std::string& name, const std::vector<TorchTensor>& ranks,
                      const std::vector<TorchTensor>* second) const;
  // The place of a parameter among tensors by our names; no value: it is not there.
  std::optional<Source> find_source(const ParameterRow& row, const MegatronFiles::Sharded& sharded, bool is_merged) const;
  Sources find_sources(const MegatronFiles::Sharded& sharded, bool is_merged) const;
  void require_nothing_else() const;
  void find_optimizer();
  void fill(const std::string& name, std::span<float> to) const;
  bool may_be_zeros(const std::string& name) const;
  std::string keep_tokenizer(const std::filesystem::path& to, const std::filesystem::path& final_place, Tree& recipe) const;
  // Members of the archive with the tokenizer, and the names they get: vocab.json, merges.txt, tokenizer.model.
  std::map<std::string, std::string> tokenizer_members() const;

  MegatronFiles files_;
  MegatronDescription description_;
  MegatronModel model_;
  std::string stored_as_;
  int64_t rows_ = 0;
  MegatronFiles::Sharded merged_;  // of mp_rank files
  Sources sources_;
  bool has_optimizer_ = false;
  Sources masters_, first_moments_, second_moments_;
};

}  // namespace trireme

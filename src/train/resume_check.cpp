#include "train/resume_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "config/tree.h"
#include "config/yaml.h"

namespace trireme {
namespace {

// Keys, or beginnings of them, that change what a step computes. What is below model. and is not listed as harmless counts.
constexpr std::array<std::string_view, 3> kMathematics{"model.", "trainer.precision", "trainer.gradient_clip_val"};

// Who computes what and when, what is kept meanwhile, and what matters only to a run that begins.
constexpr std::array<std::string_view, 30> kHarmless{
    "model.micro_batch_size",
    "model.tensor_model_parallel_size",
    "model.pipeline_model_parallel_size",
    "model.virtual_pipeline_model_parallel_size",
    "model.pipeline_schedule",
    "model.num_layers_in_first_pipeline_stage",
    "model.num_layers_in_last_pipeline_stage",
    "model.context_parallel_size",
    "model.sequence_parallel",
    "model.make_vocab_size_divisible_by",
    "model.init_method_std",
    "model.use_scaled_init_method",
    "model.activations_checkpoint_",
    "model.num_micro_batches_with_partial_activation_checkpoints",
    "model.resume_from_checkpoint",
    "model.restore_from_path",
    "model.overlap_p2p_comm",
    "model.batch_p2p_comm",
    "model.ub_tp_comm_overlap",
    "model.enable_cuda_graph",
    "model.nsys_profile.",
    "model.optim.bucket_cap_mb",
    "model.optim.overlap_",
    "model.optim.optimizer_cpu_offload",
    "model.native_amp_",
    "model.hysteresis",
    "model.data.validation_drop_last",
    "model.data.pad_samples_to_global_batch_size",
    "model.data.index_mapping_dir",
    "model.data.num_workers",
};

template <size_t kCount>
bool is_listed(const std::string& key, const std::array<std::string_view, kCount>& beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view text) { return key.starts_with(text); });
}

void compare(const Tree& saved, const Tree& wanted, const std::string& path, std::vector<std::string>& changed) {
  if (saved.is_map() && wanted.is_map()) {
    for (const Tree::Entry& entry : wanted.map())
      if (const Tree* before = saved.find(entry.key)) compare(*before, entry.value, join_path(path, entry.key), changed);
    return;
  }
  if (saved.text() == wanted.text() || !is_listed(path, kMathematics) || is_listed(path, kHarmless)) return;
  changed.push_back(fmt::format("{}={} (now {})", path, saved.brief(), wanted.brief()));
}

}  // namespace

std::vector<std::string> changed_mathematics(const std::string& saved, const std::string& wanted) {
  std::vector<std::string> changed;
  compare(read_yaml(saved, "the checkpoint's recipe"), read_yaml(wanted, "the recipe"), "", changed);
  return changed;
}

}  // namespace trireme

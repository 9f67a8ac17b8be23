#include "train/run_size.h"

#include <fmt/format.h>

#include "model/dims.h"
#include "model/parameter_table.h"

namespace trireme {

ModelDimensions flops_dimensions(const ModelSettings& model) {
  return {.layers = model.num_layers,
          .width = model.hidden_size,
          .ffn_width = model.ffn_hidden_size,
          .heads = model.num_attention_heads,
          .groups = model.groups(),
          .head_width = model.head_width(),
          .vocabulary = model.padded_vocabulary(),
          .sequence_length = model.encoder_seq_length,
          .gated_mlp = is_gated(model.activation) ? GatedMlp::yes : GatedMlp::no};
}

RunSize run_size(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const ModelDimensions dimensions = flops_dimensions(model);
  return {.parameters = parameter_count(parameter_table(model)),
          .micro_batches = model.global_batch_size / (model.micro_batch_size * settings.data_parallel_size()),
          .flops_full = model_flops_per_sample(dimensions, FlopsFormula::full),
          .flops_causal = model_flops_per_sample(dimensions, FlopsFormula::causal)};
}

Pipeline pipeline_of(const ModelSettings& model, int64_t stages, int64_t micro_batches) {
  const auto kind = [&] {
    switch (model.pipeline_schedule) {
      case PipelineSchedule::gpipe:
        return ScheduleKind::gpipe;
      case PipelineSchedule::zero_bubble:
        return ScheduleKind::zero_bubble;
      case PipelineSchedule::one_forward_one_backward:
        break;
    }
    return ScheduleKind::one_forward_one_backward;
  };
  return {.kind = kind(),
          .stages = stages,
          .chunks = model.virtual_pipeline_model_parallel_size,
          .micro_batches = micro_batches,
          .messages = model.overlap_p2p_comm ? Messages::overlapped : Messages::waited};
}

std::string overlaps_text(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const bool tensor = model.tensor_model_parallel_size > 1, context = model.context_parallel_size > 1;
  const bool copies = settings.data_parallel_size() > 1 || context;
  struct Overlap {
    bool is_on;
    const char* text;
  };
  const Overlap table[] = {
      {copies && model.optim.overlap_grad_sync, "gradient sums with backward"},
      {copies && model.fsdp, "gradient sums and weight gathers of blocks with their neighbours"},
      {copies && model.shards_optimizer() && model.optim.overlap_param_sync, "weight gathers with forward"},
      {model.pipeline_model_parallel_size > 1 && model.overlap_p2p_comm, "pipeline messages with computation"},
      {tensor && model.pipeline_schedule != PipelineSchedule::zero_bubble, "tensor parallel sums with wgrad"},
      {model.overlaps_tensor_parallel(), "tensor parallel pieces with their GEMMs"},
      {context, "keys of other ranks with attention"},
  };
  std::string text;
  for (const Overlap& overlap : table)
    if (overlap.is_on) text += fmt::format("{}{}", text.empty() ? "" : ", ", overlap.text);
  return text.empty() ? "none" : text;
}

std::string layout_text(const Settings& settings) {
  const ModelSettings& model = settings.model;
  std::string text;
  const auto add = [&](const char* name, int64_t size) {
    if (size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size);
  };
  add("TP", model.tensor_model_parallel_size);
  add("PP", model.pipeline_model_parallel_size);
  add("VP", model.virtual_pipeline_model_parallel_size);
  add("CP", model.context_parallel_size);
  add("DP", settings.data_parallel_size());
  return text.empty() ? "1 rank" : text;
}

}  // namespace trireme

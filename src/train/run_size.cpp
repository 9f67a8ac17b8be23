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

// Layouts with FP8 linear layers.
#pragma once

#include "support/layouts.h"

namespace trireme {

inline ModelSettings in_fp8(ModelSettings model) {
  model.fp8.enabled = true;
  model.fp8.amax_history_len = 16;
  model.global_batch_size = 4;
  return model;
}
inline ModelSettings fp8_gpt3() { return in_fp8(small_gpt3()); }
inline ModelSettings without_dropout(ModelSettings model) {
  model.hidden_dropout = model.attention_dropout = 0;
  return model;
}
inline ModelSettings fp8_neox() { return without_dropout(in_fp8(small_neox())); }
inline ModelSettings fp8_llama() {
  ModelSettings model = in_fp8(small_llama());
  model.num_attention_heads = 4, model.num_query_groups = 2;
  return model;
}
inline ModelSettings with_sp(ModelSettings model) {
  model.sequence_parallel = true;
  return model;
}
inline ModelSettings longer(ModelSettings model) {  // FP8 needs multiples of 16 rows
  model.encoder_seq_length = model.max_position_embeddings = 32;
  return model;
}
inline ModelSettings overlapped(ModelSettings model) {
  model.optim.name = Optimizer::distributed_fused_adam;
  model.optim.overlap_grad_sync = model.optim.overlap_param_sync = model.overlap_p2p_comm = model.ub_tp_comm_overlap = true;
  return model;
}
inline ModelSettings interleaved(ModelSettings model) {
  model.num_layers = 4, model.virtual_pipeline_model_parallel_size = 2;
  return model;
}
inline ModelSettings sharded(ModelSettings model) {
  model.fsdp = true, model.num_layers = 4;
  return model;
}
inline ModelSettings recomputed(ModelSettings model) {
  model.activations_checkpoint_granularity = RecomputeGranularity::full;
  return model;
}
inline ModelSettings tensorwise(ModelSettings model) {
  model.fp8.recipe = Fp8Recipe::tensorwise;
  return model;
}
inline ModelSettings in_fp8_only(ModelSettings model) {
  model.fp8.params = true;
  return model;
}

inline ModelSettings with_head(ModelSettings model) {
  model.fp8.lm_head = true;
  return model;
}

inline std::vector<Layout> in_bf16(std::vector<Layout> layouts) {
  for (Layout& layout : layouts) layout.precision = Precision::bf16;
  return layouts;
}

inline std::vector<Layout> quick_fp8_layouts() {
  return in_bf16({layout_of("gpt3_tp2_sp", with_sp(fp8_gpt3()), {.tp = 2}),
                  layout_of("gpt3_dp2_overlapped", overlapped(with_head(fp8_gpt3())), {.dp = 2}),
                  layout_of("neox_pp2_vp2", interleaved(fp8_neox()), {.pp = 2})});
}

inline std::vector<Layout> slow_fp8_layouts() {
  return in_bf16({layout_of("gpt3_tp2", fp8_gpt3(), {.tp = 2}),
                  layout_of("gpt3_tp2_sp_pp2_head", without_dropout(with_head(with_sp(fp8_gpt3()))), {.tp = 2, .pp = 2}),
                  layout_of("neox_tp2_sp_pp2", overlapped(with_sp(fp8_neox())), {.tp = 2, .pp = 2}),
                  layout_of("llama_pp2_vp2_dp2", overlapped(interleaved(fp8_llama())), {.dp = 2, .pp = 2}),
                  layout_of("gpt3_pp2_tensorwise", tensorwise(fp8_gpt3()), {.pp = 2}),
                  layout_of("gpt3_cp2", longer(without_dropout(fp8_gpt3())), {.cp = 2}),
                  layout_of("neox_cp2_tp2_sp", longer(with_sp(fp8_neox())), {.tp = 2, .cp = 2}),
                  layout_of("gpt3_dp2_fsdp", sharded(with_head(fp8_gpt3())), {.dp = 2}),
                  layout_of("neox_tp2_sp_dp2_fsdp_recomputed", sharded(recomputed(with_sp(fp8_neox()))), {.tp = 2, .dp = 2}),
                  layout_of("gpt3_tp2_sp_pp2_recomputed", recomputed(with_sp(fp8_gpt3())), {.tp = 2, .pp = 2}),
                  layout_of("gpt3_tp2_sp_pp2_fp8_only", in_fp8_only(with_sp(fp8_gpt3())), {.tp = 2, .pp = 2})});
}

// With nothing but the kinds of parallelism that round other numbers: parts of a weight are scaled each by itself, and so are the
// first micro-batches of ranks.
inline Layout rounded_alike(Layout layout) {
  layout.shape.pp = 1;
  ModelSettings& model = layout.model;
  model.pipeline_model_parallel_size = model.virtual_pipeline_model_parallel_size = 1;
  model.sequence_parallel = model.optim.overlap_grad_sync = model.optim.overlap_param_sync = false;
  model.optim.name = OptimSettings{}.name;
  model.activations_checkpoint_granularity = RecomputeGranularity::none;
  return layout;
}

}  // namespace trireme

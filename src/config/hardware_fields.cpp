#include "config/hardware_fields.h"

#include "config/field_kinds.h"

namespace trireme {

namespace {

std::vector<Row<Fp8Settings>> fp8_rows() {
  using S = Fp8Settings;
  return {
      boolean("fp8", &S::enabled, "GEMMs of linear layers in FP8"),
      boolean("fp8_hybrid", &S::hybrid, "FP8: E4M3 forward, E5M2 for gradients"),
      boolean("fp8_e4m3", &S::e4m3, "FP8: E4M3 for gradients too"),
      choice("fp8_recipe", &S::recipe, {{"delayed", Fp8Recipe::delayed}, {"tensorwise", Fp8Recipe::tensorwise}},
             "FP8: a tensor's scale follows earlier steps, or the tensor itself, which is read twice"),
      boolean("fp8_params", &S::params, "FP8: keep the working weights in FP8 only"),
      boolean("fp8_lm_head", &S::lm_head, "FP8: for the LM head too"),
      boolean("fp8_wgrad", &S::wgrad, "FP8: for wgrad too"),
      integer("fp8_margin", &S::margin, {0, 64}, "FP8: scales leave a factor of 2^margin free"),
      integer("fp8_interval", &S::interval, {1, 1 << 20}, "FP8: steps between updates of the scales"),
      integer("fp8_amax_history_len", &S::amax_history_len, {1, 1 << 20}, "FP8: steps of which the largest values are kept"),
      choice("fp8_amax_compute_algo", &S::amax_compute_algo,
             {{"max", AmaxAlgorithm::max}, {"most_recent", AmaxAlgorithm::most_recent}}, "FP8: how a scale follows from them"),
      boolean("reduce_amax", &S::reduce_amax, "FP8: the same scales on all ranks"),
  };
}

std::vector<Row<LossScaleSettings>> loss_scale_rows() {
  using S = LossScaleSettings;
  return {
      real("native_amp_init_scale", &S::init_scale, {1, 1e30}, "fp16: what the loss is multiplied by at first"),
      integer("native_amp_growth_interval", &S::growth_interval, {1, 1 << 30},
              "fp16: steps in a row without overflow before the scale is doubled"),
      integer("hysteresis", &S::hysteresis, {1, 1 << 20}, "fp16: overflows in a row before the scale is halved"),
  };
}

std::vector<Row<ProfileSettings>> profile_rows() {
  using S = ProfileSettings;
  return {
      boolean("enabled", &S::enabled, "mark a window of steps for the profiler"),
      text_list("trace", &S::trace, "what the profiler records"),
      integer("start_step", &S::start_step, {0, 1'000'000'000'000}, "first step of the window"),
      integer("end_step", &S::end_step, {0, 1'000'000'000'000}, "last step of the window"),
      integer_list("ranks", &S::ranks, {0, 1 << 20}, "ranks that are profiled"),
      boolean("gen_shape", &S::gen_shape, "record the shapes of tensors"),
  };
}

}  // namespace

std::vector<Row<ModelSettings>> hardware_rows() {
  using S = ModelSettings;
  std::vector<Row<S>> rows = {
      boolean("overlap_p2p_comm", &S::overlap_p2p_comm, "pipeline: send and receive during computation"),
      boolean("batch_p2p_comm", &S::batch_p2p_comm, "pipeline without overlap_p2p_comm: send and receive in one batch"),
      boolean("ub_tp_comm_overlap", &S::ub_tp_comm_overlap, "overlap tensor parallel communication with its GEMMs"),
      boolean("fsdp", &S::fsdp, "shard optimizer state, gradients and weights among data parallel ranks"),
      choice("fsdp_sharding_strategy", &S::fsdp_sharding_strategy,
             {{"full", ShardingStrategy::full}, {"grad", ShardingStrategy::gradients}},
             "FSDP: full, or grad: every rank keeps all weights"),
      choice("fsdp_grad_reduce_dtype", &S::fsdp_grad_reduce_dtype,
             {{"fp32", SyncType::f32}, {"bf16", SyncType::bf16}, {"null", SyncType::f32}, {"32", SyncType::f32}},
             "FSDP: type in which gradients are summed over ranks"),
      choice("enable_cuda_graph", &S::cuda_graph,
             {{"null", CudaGraph::where_it_pays}, {"true", CudaGraph::yes}, {"false", CudaGraph::no}},
             "replay the kernels of a micro-batch as one graph; null: where there is a GPU and one rank"),
  };
  mount(
      rows, "", fp8_rows(), [](auto& s) -> auto& { return s.fp8; });
  mount(
      rows, "", loss_scale_rows(), [](auto& s) -> auto& { return s.loss_scale; });
  mount(
      rows, "nsys_profile.", profile_rows(), [](auto& s) -> auto& { return s.profile; });
  return rows;
}

std::vector<Row<OptimSettings>> gradient_sync_rows() {
  using S = OptimSettings;
  return {
      integer("bucket_cap_mb", &S::bucket_cap_mb, {0, 1 << 20, 0},
              "MiB of gradients that are summed over ranks at once; null: chosen"),
      boolean("overlap_grad_sync", &S::overlap_grad_sync, "sum gradients over ranks during backward"),
      boolean("overlap_param_sync", &S::overlap_param_sync, "gather updated weights during forward"),
      choice("grad_sync_dtype", &S::grad_sync_dtype,
             {{"fp32", SyncType::f32},
              {"bf16", SyncType::bf16},
              {"null", SyncType::f32},
              {"float32", SyncType::f32},
              {"bfloat16", SyncType::bf16}},
             "type in which gradients are summed over ranks"),
  };
}

std::vector<Row<OptimSettings>> optimizer_state_rows() {
  using S = OptimSettings;
  const std::vector<Choice<MomentType>> types = {
      {"fp32", MomentType::f32}, {"bf16", MomentType::bf16}, {"null", MomentType::f32}};
  return {
      choice("exp_avg_dtype", &S::exp_avg_dtype, types, "type in which the running mean of the gradient is kept"),
      choice("exp_avg_sq_dtype", &S::exp_avg_sq_dtype, types, "type in which that of the squared gradient is kept"),
      boolean("optimizer_cpu_offload", &S::optimizer_cpu_offload,
              "keep masters and moments in host memory, from where each update copies them bucket by bucket"),
  };
}

}  // namespace trireme

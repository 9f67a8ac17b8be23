// LoRA on any layout: the losses and gradient norms of one rank, and what was planned. In f32 and bf16 on the CPU backend, in FP8
// on the reference backend; ranks are threads.
#include <gtest/gtest.h>

#include "backend/reference/reference_backend.h"
#include "support/layouts.h"

namespace trireme {
namespace {

constexpr int kSteps = 5;  // the first one moves only B, which is 0 before

ModelSettings with_adapters(ModelSettings model) {
  model.peft.scheme = PeftScheme::lora;
  model.peft.lora = {.adapter_dim = 4, .alpha = 12, .target_modules = {"all"}};
  return model;
}
ModelSettings gpt3() { return with_adapters(small_gpt3()); }
ModelSettings neox() { return with_adapters(small_neox()); }
ModelSettings llama() { return with_adapters(small_llama()); }

using Change = void (*)(ModelSettings&);
void sp(ModelSettings& model) { model.sequence_parallel = true; }
void interleaved(ModelSettings& model) { model.num_layers = 4, model.virtual_pipeline_model_parallel_size = 2; }
void zero_bubble(ModelSettings& model) { model.pipeline_schedule = PipelineSchedule::zero_bubble; }
void sharded_optimizer(ModelSettings& model) { model.optim.name = Optimizer::distributed_fused_adam; }
void overlapped(ModelSettings& model) {
  sharded_optimizer(model);
  model.optim.overlap_grad_sync = model.optim.overlap_param_sync = model.overlap_p2p_comm = model.ub_tp_comm_overlap = true;
}
void fsdp(ModelSettings& model) { model.fsdp = true, model.num_layers = 4; }
// The pieces of sharded masters, of 128 elements, end within rows.
void uneven(ModelSettings& model) { model.hidden_size = 48, model.num_attention_heads = 4, model.num_query_groups = 2; }
void recomputed(ModelSettings& model) { model.activations_checkpoint_granularity = RecomputeGranularity::full; }
// FP8 needs multiples of 16 in every GEMM. What dropout draws depends on no layout, but rounding to FP8 makes more of it.
void fp8(ModelSettings& model) {
  model.fp8.enabled = true;
  model.fp8.amax_history_len = 16;
  model.hidden_dropout = model.attention_dropout = 0;
  model.num_attention_heads = 4, model.num_query_groups = 2;
}

Layout lora(const char* name, ModelSettings model, const std::vector<Change>& changes, const MeshShape& shape,
            Precision precision = Precision::f32) {
  for (const Change change : changes) change(model);
  model.global_batch_size = 4 * shape.dp;
  return layout_of(name, std::move(model), shape, precision);
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      lora("gpt3_tp4", gpt3(), {}, {.tp = 4}),
      lora("gpt3_tp2_sp_pp2_zero_bubble", gpt3(), {sp, zero_bubble}, {.tp = 2, .pp = 2}),
      lora("neox_tp2_sp_cp2", neox(), {sp}, {.tp = 2, .cp = 2}),
      lora("llama_tp2_dp2_sharded_overlapped", llama(), {overlapped}, {.tp = 2, .dp = 2}),
      lora("llama_dp2_pp2_interleaved", llama(), {interleaved}, {.dp = 2, .pp = 2}),
      lora("neox_dp2_pp2_sharded_recomputed", neox(), {sharded_optimizer, recomputed}, {.dp = 2, .pp = 2}),
      lora("llama_dp4_sharded_uneven", llama(), {sharded_optimizer, uneven}, {.dp = 4}),
      lora("gpt3_dp2_fsdp", gpt3(), {fsdp}, {.dp = 2}),
      lora("llama_tp2_sp_dp2_fsdp_recomputed", llama(), {sp, fsdp, recomputed}, {.tp = 2, .dp = 2}),
      lora("llama_tp2_sp_bf16", llama(), {sp}, {.tp = 2}, Precision::bf16),
      lora("gpt3_dp2_pp2_sharded_bf16", gpt3(), {sharded_optimizer}, {.dp = 2, .pp = 2}, Precision::bf16),
  };
  return all;
}

class LoraLayouts : public testing::TestWithParam<Layout> {};

TEST_P(LoraLayouts, TrainAsOneRankDoes) {
  const Layout& layout = GetParam();
  const std::vector<RankRun> runs = train(layout, kSteps);
  for (const RankRun& run : runs) expect_as_planned(run);
  const std::vector<RankRun> one = train(on_one_rank(layout), kSteps);
  for (const StepResult& step : one[0].results) EXPECT_GT(step.grad_norm, 0);
  expect_same_as_one_rank(layout, runs, one[0]);
}

INSTANTIATE_TEST_SUITE_P(All, LoraLayouts, testing::ValuesIn(layouts()), [](const auto& param) { return param.param.name; });

std::vector<RankRun> train_on_reference(const Layout& layout) {
  return on_ranks(layout.shape.size(), [&](World& world, RankRun& run) {
    auto reference = std::make_unique<ReferenceBackend>();
    reference->set_streams(world.streams());
    ScribblingBackend scribbling(std::move(reference));
    run_engine(layout, kSteps, world.rank(), std::make_unique<TracedBackend>(scribbling, run.executed),
               traced(Mesh::of(layout.shape, world), run.executed), run);
  });
}

class LoraInFp8 : public testing::TestWithParam<Layout> {};

TEST_P(LoraInFp8, TrainsAsOneRankDoes) {
  const Layout& layout = GetParam();
  const std::vector<RankRun> runs = train_on_reference(layout);
  for (const RankRun& run : runs) expect_as_planned(run);
  Layout alone = on_one_rank(layout);
  const std::vector<StepResult> one = train_on_reference(alone)[0].results;
  alone.model.fp8.enabled = false;
  const std::vector<StepResult> in_bf16 = train_on_reference(alone)[0].results;
  // E4M3 has three bits of mantissa. Cut weights are scaled by themselves, so they round another way than whole ones do.
  // Measured: 0.2% of the loss, and as much from bf16.
  constexpr double kTolerance = 0.02;
  double layouts = 0, precisions = 0;
  for (size_t step = 0; step < one.size(); ++step) {
    EXPECT_NEAR(runs[0].results[step].loss, one[step].loss, kTolerance * one[step].loss) << "step " << step;
    EXPECT_NEAR(one[step].loss, in_bf16[step].loss, kTolerance * one[step].loss) << "step " << step;
    for (const RankRun& run : runs) EXPECT_EQ(run.results[step].loss, runs[0].results[step].loss);
    layouts = std::max(layouts, std::abs(runs[0].results[step].loss / one[step].loss - 1));
    precisions = std::max(precisions, std::abs(one[step].loss / in_bf16[step].loss - 1));
  }
  EXPECT_NE(one.back().loss, in_bf16.back().loss);
  for (const StepResult& step : one) EXPECT_GT(step.grad_norm, 0);
  std::printf("%s: losses within %.1e of one rank, and that within %.1e of bf16\n", layout.name.c_str(), layouts, precisions);
}

INSTANTIATE_TEST_SUITE_P(All, LoraInFp8,
                         testing::Values(lora("llama_tp2_sp", llama(), {fp8, sp}, {.tp = 2}, Precision::bf16),
                                         lora("gpt3_dp2_sharded", gpt3(), {fp8, sharded_optimizer}, {.dp = 2}, Precision::bf16)),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace trireme

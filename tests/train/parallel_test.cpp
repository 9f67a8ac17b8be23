// Any layout gives the losses of one rank: each kind of parallelism by itself, and some together. The cover of their combinations
// is in layouts_test.
#include <gtest/gtest.h>

#include "support/layouts.h"

namespace trireme {
namespace {

constexpr int kSteps = 5;

using Change = void (*)(ModelSettings&);

struct Case {
  const char* name;
  ModelSettings (*model)();
  MeshShape shape;
  Change change = [](ModelSettings&) {};
  Precision precision = Precision::f32;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

void distributed(ModelSettings& m) { m.optim.name = Optimizer::distributed_fused_adam; }
void overlapped(ModelSettings& m) {
  distributed(m);
  m.optim.overlap_grad_sync = m.optim.overlap_param_sync = m.overlap_p2p_comm = m.ub_tp_comm_overlap = true;
}

const Case kCases[] = {
    {"gpt3_dp2", small_gpt3, {.dp = 2}},
    {"gpt3_dp4_zero", small_gpt3, {.dp = 4}, overlapped},
    {"gpt3_dp4_bf16", small_gpt3, {.dp = 4}, distributed, Precision::bf16},
    {"gpt3_tp2", small_gpt3, {.tp = 2}},
    {"gpt3_tp4", small_gpt3, {.tp = 4}, overlapped},
    {"neox_tp2_dp4", small_neox, {.tp = 2, .dp = 4}, overlapped},
    {"llama_tp4", small_llama, {.tp = 4}},
    {"gpt3_sp2", small_gpt3, {.tp = 2}, [](ModelSettings& m) { m.sequence_parallel = true; }},
    {"neox_sp4", small_neox, {.tp = 4}, [](ModelSettings& m) { m.sequence_parallel = m.ub_tp_comm_overlap = true; }},
    {"llama_sp2_bf16", small_llama, {.tp = 2}, [](ModelSettings& m) { m.sequence_parallel = true; }, Precision::bf16},
    {"gpt3_pp2", small_gpt3, {.pp = 2}},
    {"gpt3_pp4_recompute",
     small_gpt3,
     {.pp = 4},
     [](ModelSettings& m) { m.num_layers = 4, m.activations_checkpoint_granularity = RecomputeGranularity::full; }},
    {"llama_pp2_overlapped", small_llama, {.pp = 2}, overlapped},
    {"gpt3_pp2_single_messages", small_gpt3, {.pp = 2}, [](ModelSettings& m) { m.batch_p2p_comm = false; }},
    {"gpt3_pp2_uneven",
     small_gpt3,
     {.pp = 2},
     [](ModelSettings& m) { m.num_layers = 3, m.num_layers_in_last_pipeline_stage = 1; }},
    {"gpt3_pp2_vp2",
     small_gpt3,
     {.pp = 2},
     [](ModelSettings& m) { m.num_layers = 4, m.virtual_pipeline_model_parallel_size = 2; }},
    {"neox_pp2_vp3_overlapped",
     small_neox,
     {.pp = 2},
     [](ModelSettings& m) { overlapped(m), m.num_layers = 6, m.virtual_pipeline_model_parallel_size = 3; }},
    {"gpt3_pp2_gpipe", small_gpt3, {.pp = 2}, [](ModelSettings& m) { m.pipeline_schedule = PipelineSchedule::gpipe; }},
    {"gpt3_pp4_zb",
     small_gpt3,
     {.pp = 4},
     [](ModelSettings& m) { m.num_layers = 4, m.pipeline_schedule = PipelineSchedule::zero_bubble; }},
    {"neox_pp2_zb_recompute",
     small_neox,
     {.pp = 2},
     [](ModelSettings& m) {
       m.num_layers = 4, m.pipeline_schedule = PipelineSchedule::zero_bubble, m.overlap_p2p_comm = true;
       m.activations_checkpoint_granularity = RecomputeGranularity::full, m.activations_checkpoint_num_layers = 2;
     }},
    {"llama_pp2_zb_selective_no_dropout",
     small_llama,
     {.pp = 2},
     [](ModelSettings& m) {
       m.pipeline_schedule = PipelineSchedule::zero_bubble, m.hidden_dropout = m.attention_dropout = 0;
       m.activations_checkpoint_granularity = RecomputeGranularity::selective;
     }},
    {"neox_pp2_no_dropout", small_neox, {.pp = 2}, [](ModelSettings& m) { m.hidden_dropout = m.attention_dropout = 0; }},
    {"gpt3_cp2", small_gpt3, {.cp = 2}, [](ModelSettings& m) { m.micro_batch_size = 2; }},
    {"llama_cp2_dp2", small_llama, {.cp = 2, .dp = 2}, overlapped},
    {"gpt3_cp4", small_gpt3, {.cp = 4}, [](ModelSettings& m) { m.encoder_seq_length = m.max_position_embeddings = 32; }},
    {"gpt3_dp2_buckets", small_gpt3, {.dp = 2}, [](ModelSettings& m) { overlapped(m), m.optim.bucket_cap_mb = 1; }},
    {"gpt3_dp2_fsdp", small_gpt3, {.dp = 2}, [](ModelSettings& m) { m.fsdp = true, m.num_layers = 4; }},
    {"llama_dp2_fsdp_grad",
     small_llama,
     {.dp = 2},
     [](ModelSettings& m) { overlapped(m), m.fsdp = true, m.fsdp_sharding_strategy = ShardingStrategy::gradients; }},
    {"neox_dp2_fsdp_bf16",
     small_neox,
     {.dp = 2},
     [](ModelSettings& m) { overlapped(m), m.fsdp = true, m.num_layers = 3; },
     Precision::bf16},
    {"gpt3_dp4_fsdp_recompute",
     small_gpt3,
     {.dp = 4},
     [](ModelSettings& m) {
       overlapped(m), m.fsdp = true, m.num_layers = 5;
       m.activations_checkpoint_granularity = RecomputeGranularity::full, m.activations_checkpoint_num_layers = 2;
     }},
    {"gpt3_tp2_sp_cp2_dp2_fsdp",
     small_gpt3,
     {.tp = 2, .cp = 2, .dp = 2},
     [](ModelSettings& m) { overlapped(m), m.fsdp = m.sequence_parallel = true, m.num_layers = 3; }},
    {"neox_dp2_pp2_vp2_fsdp",
     small_neox,
     {.dp = 2, .pp = 2},
     [](ModelSettings& m) { m.fsdp = true, m.num_layers = 8, m.virtual_pipeline_model_parallel_size = 2; }},
    {"gpt3_tp2_dp2_pp2", small_gpt3, {.tp = 2, .dp = 2, .pp = 2}, overlapped},
    {"neox_all",
     small_neox,
     {.tp = 2, .cp = 2, .dp = 2, .pp = 2},
     [](ModelSettings& m) {
       overlapped(m), m.sequence_parallel = true, m.num_layers = 4, m.virtual_pipeline_model_parallel_size = 2;
     }},
};

class ParallelTest : public testing::TestWithParam<Case> {};

TEST_P(ParallelTest, MatchesOneRank) {
  const Case& c = GetParam();
  ModelSettings model = c.model();
  c.change(model);
  const Layout layout = layout_of(c.name, model, c.shape, c.precision);
  expect_same_as_one_rank(layout, train(layout, kSteps), train(on_one_rank(layout), kSteps)[0]);
}

// Many ranks take long on few cores.
std::vector<Case> cases_of(bool is_slow) {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  std::erase_if(cases, [&](const Case& c) { return (c.shape.size() > 2) != is_slow; });
  return cases;
}
std::string name_of(const testing::TestParamInfo<Case>& test) { return test.param.name; }
INSTANTIATE_TEST_SUITE_P(Layouts, ParallelTest, testing::ValuesIn(cases_of(false)), name_of);
INSTANTIATE_TEST_SUITE_P(Slow, ParallelTest, testing::ValuesIn(cases_of(true)), name_of);

// With one micro-batch per rank the gradients are summed in the same order.
TEST(Fsdp, HasTheBitsOfAShardedOptimizerWithOneMicroBatch) {
  for (const Precision precision : {Precision::f32, Precision::bf16})
    for (const SyncType sync : {SyncType::f32, SyncType::bf16}) {
      ModelSettings model = small_neox();
      overlapped(model);
      model.num_layers = 5;
      model.global_batch_size = 4;
      model.optim.grad_sync_dtype = model.fsdp_grad_reduce_dtype = sync;
      const auto run = [&](const char* name) {
        Layout layout = layout_of(name, model, {.dp = 4}, precision);
        layout.not_evaluated = 0;
        return train(layout, kSteps)[0];
      };
      const RankRun plain = run("zero");
      for (const ShardingStrategy strategy : {ShardingStrategy::full, ShardingStrategy::gradients}) {
        model.fsdp = true, model.fsdp_sharding_strategy = strategy;
        const RankRun sharded = run("fsdp");
        for (size_t step = 0; step < kSteps; ++step) EXPECT_EQ(sharded.results[step].loss, plain.results[step].loss) << step;
        EXPECT_EQ(sharded.evaluated, plain.evaluated);
      }
    }
}

// On CPUs an op has ended before the next call, so a missing event would show on GPUs only: here it shows in what was recorded.
TEST(Fsdp, SumsAndGathersWaitForTheOpsBeforeThem) {
  ModelSettings model = small_gpt3();
  model.fsdp = true, model.num_layers = 4;
  StepLog log;
  plan_memory({.model = model, .precision = Precision::f32, .gradient_clip = 1.0}, CpuBackend(1), 2, {{.dp = 4}, 0}, &log);
  int64_t last_op = -1, recorded_after = -1, waited_for = -1, checked = 0;
  for (int64_t i = 0; i < std::ssize(log.records); ++i) {
    const OpRecord& record = log.records[static_cast<size_t>(i)];
    if (record.kind == RecordKind::op && record.stream == kCompute) last_op = i;
    if (record.kind == RecordKind::event && record.stream == kCompute) recorded_after = last_op;
    if (record.kind == RecordKind::wait && record.stream == kDataParallel) waited_for = recorded_after;
    if (record.kind != RecordKind::collective || record.stream != kDataParallel) continue;
    EXPECT_EQ(waited_for, last_op) << record.name << ", record " << i;
    ++checked;
  }
  EXPECT_GT(checked, 4 * 4) << "four blocks, gathered and summed in two micro-batches";
}

// Gradients that are summed in bf16 are rounded once to 8 bits: the norm is that of one rank within 2^-8, and so is a step.
TEST(GradSyncDtype, SumsInBf16) {
  ModelSettings model = small_gpt3();
  distributed(model);
  const auto exact = train(layout_of("f32", model, {.dp = 4}), 1);
  model.optim.grad_sync_dtype = SyncType::bf16;
  const auto rounded = train(layout_of("bf16", model, {.dp = 4}), kSteps);
  EXPECT_NEAR(rounded[0].results[0].grad_norm, exact[0].results[0].grad_norm, 0x1p-8 * exact[0].results[0].grad_norm);
  EXPECT_NE(rounded[0].results[0].grad_norm, exact[0].results[0].grad_norm) << "nothing was rounded";
  // The buckets of a sharded optimizer share one buffer. Without sharding, or with backward running at the same time, the same
  // numbers are summed.
  const auto expect_equal = [&](const char* name, const ModelSettings& other) {
    const auto results = train(layout_of(name, other, {.dp = 4}), kSteps);
    for (size_t step = 0; step < kSteps; ++step) EXPECT_EQ(results[0].results[step].loss, rounded[0].results[step].loss) << name;
  };
  ModelSettings plain = model, at_once = model;
  plain.optim.name = Optimizer::fused_adam;
  overlapped(at_once);
  expect_equal("plain", plain);
  expect_equal("overlapped", at_once);
}

}  // namespace
}  // namespace trireme

// What a rank holds: the closed forms of the literature, and the dry run that sizes its memory.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "support/engine_fixture.h"
#include "support/scribbling_backend.h"

namespace trireme {
namespace {

// Sizes are multiples of what tensors are aligned to, so that cutting them leaves nothing over.
ModelSettings model_of(const MeshShape& shape) {
  ModelSettings model = small_model();
  model.num_layers = 4;
  model.hidden_size = 256;
  model.ffn_hidden_size = 1024;
  model.num_attention_heads = 8;
  model.encoder_seq_length = model.max_position_embeddings = 256;
  model.vocab_size = 1024;
  model.micro_batch_size = 1;
  model.global_batch_size = 8 * shape.dp;
  model.tensor_model_parallel_size = shape.tp;
  model.context_parallel_size = shape.cp;
  model.pipeline_model_parallel_size = shape.pp;
  model.optim.name = "distributed_fused_adam";
  return model;
}

MemoryPlan plan_of(const ModelSettings& model, const MeshShape& shape) {
  return plan_memory({.model = model, .precision = Precision::bf16, .gradient_clip = 1}, CpuBackend(1), 8, {shape, 0});
}

// bf16 weights and f32 gradients: 6 bytes a parameter. f32 masters and two moments: 12, shared out over d ranks.
TEST(RankMemory, AParameterTakes6BytesAnd12OverD) {
  for (const int d : {1, 2, 4, 8}) {
    const MeshShape shape{.dp = d};
    const MemoryPlan plan = plan_of(model_of(shape), shape);
    const int64_t parameters = FlatLayout::of(model_of(shape), {.dp_size = d}).count;
    EXPECT_EQ(plan.arenas.parameters.peak() + plan.arenas.gradients.peak(), 6 * parameters);
    const double shared = static_cast<double>(plan.arenas.masters.peak() + plan.arenas.states.peak());
    // The step's scalars and the norms of the parameters come to less than a page.
    EXPECT_NEAR(shared, 12.0 * static_cast<double>(parameters) / d, 4096) << d << " data parallel ranks";
  }
}

TEST(RankMemory, WithoutADistributedOptimizerEveryRankHasAllOfIt) {
  const MeshShape shape{.dp = 4};
  ModelSettings model = model_of(shape);
  model.optim.name = "fused_adam";
  const int64_t parameters = FlatLayout::of(model).count;
  EXPECT_EQ(plan_of(model, shape).arenas.masters.peak(), 4 * parameters);
}

// Half of them at most, in multiples that FP8 products can have, and no more than products need to be fast.
TEST(RankMemory, LogitsNeverExistWhole) {
  const auto rows_there = [](int64_t rows) {
    ModelSettings model = model_of({});
    model.encoder_seq_length = model.max_position_embeddings = rows;
    return plan_of(model, {}).arenas.logits.peak() / (2 * model.padded_vocabulary());
  };
  EXPECT_EQ(rows_there(256), 128);
  EXPECT_EQ(rows_there(48), 32);
  const int64_t full_speed = CpuBackend(1).full_speed_rows();
  EXPECT_EQ(rows_there(2 * full_speed), full_speed);
  EXPECT_EQ(rows_there(8 * full_speed), full_speed);
}

// With sequence parallelism everything a layer keeps is cut over the t ranks; only the tokens are not.
TEST(RankMemory, ActivationsFallWithTensorParallelRanks) {
  const auto activations = [](int t) {
    const MeshShape shape{.tp = t};
    ModelSettings model = model_of(shape);
    model.sequence_parallel = t > 1;
    const int64_t tokens = model.micro_batch_size * model.encoder_seq_length * (3 * 4 + 8);
    return plan_of(model, shape).arenas.activations.peak() - tokens;
  };
  EXPECT_EQ(activations(2), activations(1) / 2);
  EXPECT_EQ(activations(4), activations(1) / 4);
}

// Without it norms, residuals and dropouts are whole on every rank: 10 of the 34 bytes of a layer's element.
TEST(RankMemory, WithoutSequenceParallelismSomeActivationsStayWhole) {
  const MeshShape shape{.tp = 4};
  ModelSettings model = model_of(shape);
  const int64_t plain = plan_of(model, shape).arenas.activations.peak();
  model.sequence_parallel = true;
  EXPECT_GT(plain, 3 * plan_of(model, shape).arenas.activations.peak() / 2);
}

TEST(RankMemory, ActivationsFallWithContextParallelRanks) {
  const auto activations = [](int c) {
    const MeshShape shape{.cp = c};
    return plan_of(model_of(shape), shape).arenas.activations.peak();
  };
  EXPECT_EQ(activations(2), activations(1) / 2);
  EXPECT_EQ(activations(4), activations(1) / 4);
}

// Of the gradients of a block only those of the residual stream, of a norm's output and of a branch have memory of their own.
TEST(RankMemory, GradientsLieWhereActivationsWere) {
  const ModelSettings model = model_of({});
  const MemoryPlan plan = plan_of(model, {});
  const int64_t N = 256, C = 256;
  ASSERT_GT(model.hidden_dropout, 0);
  EXPECT_EQ(plan.arenas.work.peak(), 2 * N * C * 2) << "the branch of forward and the gradient of the residual stream";
  EXPECT_EQ(plan.arenas.passing.peak(), 2 * N * C * 2) << "gradients of a norm and of a branch";
  EXPECT_EQ(plan.arenas.scratch.peak(), (N + 3 * N / 2) * 4) << "a loss a row, three numbers a row of the logits that are there";
}

// The loss head and a block never work at the same time.
TEST(RankMemory, LogitsLieWhereBlocksWork) {
  const auto scratch = [](int64_t vocabulary) {
    ModelSettings model = model_of({});
    model.activations_checkpoint_granularity = RecomputeGranularity::full;  // so that they work in much
    model.vocab_size = vocabulary;
    const MemoryPlan plan = plan_of(model, {});
    EXPECT_GE(plan.work_at(), plan.ops.attention);
    EXPECT_GE(plan.logits_at(), plan.ops.others);
    return plan.arenas.scratch.peak() + plan.shared_scratch();
  };
  EXPECT_EQ(scratch(256), scratch(1024)) << "smaller than what blocks work in";
  EXPECT_LT(scratch(1024), scratch(64 * 1024));
}

// Attention works where other ops pass things on; only what is needed behind it has a place of its own.
TEST(RankMemory, AttentionWorksWhereItDisturbsNobody) {
  const CpuBackend cpu(1);
  const ScribblingBackend greedy(std::make_unique<CpuBackend>(1));  // its attention asks for much
  const auto plan = [](const Backend& backend) {
    ModelSettings model = model_of({});
    model.vocab_size = 64;  // few logits
    model.micro_batch_size = 1;
    model.encoder_seq_length = model.max_position_embeddings = 64;
    return plan_memory({.model = model, .precision = Precision::bf16, .gradient_clip = 1}, backend, 8, {{}, 0});
  };
  const MemoryPlan plain = plan(cpu), more = plan(greedy);
  ASSERT_GT(more.ops.attention, more.passing_at() + more.arenas.passing.peak());
  EXPECT_EQ(more.shared_scratch(), round_up(more.ops.attention, Arena::kAlignment) + plain.arenas.work.peak());
}

// In flight on the first stage: as many micro-batches as stages, each of a share of the layers; with chunks a little more.
TEST(RankMemory, SchedulesHoldWhatTheLiteratureSays) {
  const auto blocks = [](PipelineSchedule schedule, int64_t chunks) {
    const MeshShape shape{.pp = 4};
    ModelSettings model = model_of(shape);
    model.num_layers = 8;
    model.pipeline_schedule = schedule;
    model.virtual_pipeline_model_parallel_size = chunks;
    return static_cast<double>(plan_of(model, shape).arenas.activations.peak());
  };
  using enum PipelineSchedule;
  const double in_turn = blocks(one_forward_one_backward, 1);
  EXPECT_NEAR(blocks(gpipe, 1) / in_turn, 8.0 / 4, 0.02) << "all 8 micro-batches instead of 4";
  // 1 + (p-1)/(p v) = 11/8 are alive at once; each chunk has a ring of its own, whose most do not come at the same time: 12/8.
  EXPECT_NEAR(blocks(one_forward_one_backward, 2) / in_turn, 12.0 / 8, 0.02);
}

// The table of docs/schedules.md.
TEST(RankMemory, Table) {
  struct Row {
    const char* name;
    MeshShape shape;
    bool sequence_parallel = false;
  };
  const Row rows[] = {{"1 rank", {}},
                      {"DP 4", {.dp = 4}},
                      {"TP 4", {.tp = 4}},
                      {"TP 4, SP", {.tp = 4}, true},
                      {"PP 4", {.pp = 4}},
                      {"CP 4", {.cp = 4}},
                      {"TP 2, SP, PP 2, DP 2", {.tp = 2, .dp = 2, .pp = 2}, true}};
  std::printf("%-22s %12s %12s %12s %12s %12s\n", "KiB of rank 0", "parameters", "gradients", "optimizer", "activations",
              "scratch");
  for (const Row& row : rows) {
    ModelSettings model = model_of(row.shape);
    model.sequence_parallel = row.sequence_parallel;
    const MemoryPlan plan = plan_of(model, row.shape);
    const auto kib = [](int64_t bytes) { return static_cast<long>(bytes / 1024); };
    std::printf("%-22s %12ld %12ld %12ld %12ld %12ld\n", row.name, kib(plan.arenas.parameters.peak()),
                kib(plan.arenas.gradients.peak()), kib(plan.arenas.masters.peak() + plan.arenas.states.peak()),
                kib(plan.arenas.activations.peak()),
                kib(plan.arenas.scratch.peak() + plan.arenas.work.peak() + plan.arenas.passing.peak()));
  }
}

}  // namespace
}  // namespace trireme

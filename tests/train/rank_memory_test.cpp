// What a rank holds: the closed forms of the literature, and the dry run that sizes its memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "support/engine_fixture.h"
#include "support/golden_text.h"
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
  model.optim.name = Optimizer::distributed_fused_adam;
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

// Of the blocks a rank keeps 18 bytes a parameter divided by d, and slots for two of them: 2 bytes for weights, 4 for gradients.
// The embedding and the final norm are whole: 6 bytes and 12 / d.
TEST(RankMemory, WithFsdpOnlyTwoBlocksAreWhole) {
  for (const int d : {2, 8}) {
    const MeshShape shape{.dp = d};
    ModelSettings model = model_of(shape);
    model.num_layers = 6;
    model.fsdp = true;
    const FlatLayout layout = FlatLayout::of(model, {.dp_size = d});
    const int64_t blocks = 6 * layout.buckets[1].all.count, rest = layout.count - blocks, slots = 2 * blocks / 6;
    const MemoryPlan full = plan_of(model, shape);
    EXPECT_EQ(full.arenas.parameters.peak(), 2 * (blocks / d + slots + rest));
    EXPECT_EQ(full.arenas.gradients.peak(), 4 * (blocks / d + slots + rest));
    EXPECT_EQ(full.arenas.masters.peak(), 4 * (blocks + rest) / d);
    model.fsdp_sharding_strategy = ShardingStrategy::gradients;
    const MemoryPlan gradients = plan_of(model, shape);
    EXPECT_EQ(gradients.arenas.parameters.peak(), 2 * (blocks + rest));
    EXPECT_EQ(gradients.arenas.gradients.peak(), full.arenas.gradients.peak());
  }
}

TEST(RankMemory, Bf16MomentsTakeHalf) {
  ModelSettings model = model_of({});
  const int64_t count = FlatLayout::of(model).state_count, plain = plan_of(model, {}).arenas.states.peak();
  model.optim.exp_avg_dtype = MomentType::bf16;
  EXPECT_EQ(plan_of(model, {}).arenas.states.peak(), plain - 2 * count);
  model.optim.exp_avg_sq_dtype = MomentType::bf16;
  const MemoryPlan both = plan_of(model, {});
  EXPECT_EQ(both.arenas.states.peak(), plain - 4 * count);
  EXPECT_EQ(both.checkpoint_copy, plan_of(model_of({}), {}).checkpoint_copy / 12 * 8);
}

// On the device are two slots for the largest bucket.
TEST(RankMemory, StatesInHostMemoryLeaveTwoSlots) {
  const MeshShape shape{.dp = 2};
  ModelSettings model = model_of(shape);
  const FlatLayout layout = FlatLayout::of(model, {.dp_size = 2});
  const MemoryPlan plain = plan_of(model, shape);
  model.optim.optimizer_cpu_offload = true;
  const MemoryPlan plan = plan_of(model, shape);
  int64_t most = 0;
  for (const Bucket& bucket : layout.buckets) most = std::max(most, bucket.own.count);
  EXPECT_EQ(plan.arenas.masters.peak(), 0);
  EXPECT_EQ(plan.arenas.host_states.peak(), 12 * layout.state_count);
  EXPECT_EQ(plan.arenas.states.peak(), plain.arenas.states.peak() - 8 * layout.state_count + 2 * 12 * most);
  EXPECT_EQ(plan.total(), plain.total() - 12 * layout.state_count + 2 * 12 * most);
  EXPECT_EQ(plan.checkpoint_copy, plain.checkpoint_copy);
}

TEST(RankMemory, WithoutADistributedOptimizerEveryRankHasAllOfIt) {
  const MeshShape shape{.dp = 4};
  ModelSettings model = model_of(shape);
  model.optim.name = Optimizer::fused_adam;
  const int64_t parameters = FlatLayout::of(model).count;
  EXPECT_EQ(plan_of(model, shape).arenas.masters.peak(), 4 * parameters);
}

const PlannedTensor& tensor_named(const MemoryPlan& plan, ActionKind kind, std::string_view name) {
  for (const PlannedTensor& each : plan.step.action(kind, 0).tensors)
    if (each.tensor.name == name) return each;
  throw std::runtime_error(fmt::format("no tensor {}", name));
}

// Half of them at most, in multiples that FP8 GEMMs can have, and no more than GEMMs need to be fast.
TEST(RankMemory, LogitsNeverExistWhole) {
  const auto rows_there = [](int64_t rows) {
    ModelSettings model = model_of({});
    model.encoder_seq_length = model.max_position_embeddings = rows;
    return tensor_named(plan_of(model, {}), ActionKind::forward, "logits").tensor.shape[0];
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
    return plan_of(model, shape).activations() - tokens;
  };
  EXPECT_EQ(activations(2), activations(1) / 2);
  EXPECT_EQ(activations(4), activations(1) / 4);
}

// Without it norms, residuals and dropouts are whole on every rank: 10 of the 34 bytes of a layer's element.
TEST(RankMemory, WithoutSequenceParallelismSomeActivationsStayWhole) {
  const MeshShape shape{.tp = 4};
  ModelSettings model = model_of(shape);
  const int64_t plain = plan_of(model, shape).activations();
  model.sequence_parallel = true;
  EXPECT_GT(plain, 3 * plan_of(model, shape).activations() / 2);
}

TEST(RankMemory, ActivationsFallWithContextParallelRanks) {
  const auto activations = [](int c) {
    const MeshShape shape{.cp = c};
    return plan_of(model_of(shape), shape).activations();
  };
  EXPECT_EQ(activations(2), activations(1) / 2);
  EXPECT_EQ(activations(4), activations(1) / 4);
}

// Tensors of an action that is planned, by address.
int64_t address_of(const MemoryPlan& plan, ActionKind kind, std::string_view name) {
  return plan.step.address(tensor_named(plan, kind, name).place, {});
}

// Gradients that are written after the last use of an activation that is as large, or larger.
TEST(RankMemory, GradientsAreWhereActivationsWere) {
  const MemoryPlan plan = plan_of(model_of({}), {});
  for (const char* name : {"d_up", "d_qkv", "d_attended"})
    EXPECT_EQ(tensor_named(plan, ActionKind::backward, name).place.ring, SlotRing::saved) << name;
}

// The loss head and a block never work at the same time.
TEST(RankMemory, LogitsAreWhereBlocksWork) {
  const auto workspace = [](int64_t vocabulary) {
    ModelSettings model = model_of({});
    model.activations_checkpoint_granularity = RecomputeGranularity::full;  // so that they work in much
    model.vocab_size = vocabulary;
    return plan_of(model, {}).workspace();
  };
  EXPECT_NEAR(static_cast<double>(workspace(256)), static_cast<double>(workspace(1024)), 4096)
      << "fewer bytes than blocks work in";
  EXPECT_LT(workspace(1024), workspace(64 * 1024));
}

// Attention works where other ops keep what they are done with before it.
TEST(RankMemory, OnlyTensorsInUseAreOutsideOfAttentionsScratch) {
  const CpuBackend cpu(1);
  const ScribblingBackend greedy(std::make_unique<CpuBackend>(1));  // its attention asks for much
  const auto plan = [](const Backend& backend) {
    ModelSettings model = model_of({});
    model.vocab_size = 64;  // few logits
    model.encoder_seq_length = model.max_position_embeddings = 64;
    return plan_memory({.model = model, .precision = Precision::bf16, .gradient_clip = 1}, backend, 8, {{}, 0});
  };
  const MemoryPlan plain = plan(cpu), more = plan(greedy);
  ASSERT_GT(more.scratch.compute, plain.workspace());
  const int64_t C = 256, N = 64;
  // In use while attention's backward runs and nowhere in the slots: the gradients of the residual stream and of its branch.
  EXPECT_LE(more.workspace() - more.scratch.compute, 3 * N * C * 2 + 4096);
}

// A tensor of an action may be where another is that is not in use at the same time.
TEST(RankMemory, AnEvaluationTakesNoMemoryOfItsOwn) {
  const MemoryPlan plan = plan_of(model_of({}), {});
  EXPECT_LT(address_of(plan, ActionKind::forward_only, "qkv"), plan.step.kept);
}

// In flight on the first stage: as many micro-batches as stages, each of a share of the layers; with chunks a little more.
TEST(RankMemory, SchedulesHoldWhatTheLiteratureSays) {
  const auto blocks = [](PipelineSchedule schedule, int64_t chunks) {
    const MeshShape shape{.pp = 4};
    ModelSettings model = model_of(shape);
    model.num_layers = 8;
    model.pipeline_schedule = schedule;
    model.virtual_pipeline_model_parallel_size = chunks;
    return static_cast<double>(plan_of(model, shape).activations());
  };
  using enum PipelineSchedule;
  const double in_turn = blocks(one_forward_one_backward, 1);
  EXPECT_NEAR(blocks(gpipe, 1) / in_turn, 8.0 / 4, 0.02) << "all 8 micro-batches instead of 4";
  EXPECT_NEAR(blocks(one_forward_one_backward, 2) / in_turn, 11.0 / 8, 0.02) << "1 + (p-1)/(p v)";
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
  const CpuBackend backend(1, cpu::Isa::avx2);  // scratch depends on the instruction set
  std::string text = fmt::format("{:22} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "KiB of rank 0", "parameters", "gradients",
                                 "optimizer", "activations", "scratch");
  for (const Row& row : rows) {
    ModelSettings model = model_of(row.shape);
    model.sequence_parallel = row.sequence_parallel;
    const MemoryPlan plan =
        plan_memory({.model = model, .precision = Precision::bf16, .gradient_clip = 1}, backend, 8, {row.shape, 0});
    const auto kib = [](int64_t bytes) { return bytes / 1024; };
    text += fmt::format("{:22} {:12} {:12} {:12} {:12} {:12}\n", row.name, kib(plan.arenas.parameters.peak()),
                        kib(plan.arenas.gradients.peak()), kib(plan.arenas.masters.peak() + plan.arenas.states.peak()),
                        kib(plan.activations()), kib(plan.workspace()));
  }
  expect_golden_block("docs/schedules.md", "KiB of rank 0", text);
}

}  // namespace
}  // namespace trireme

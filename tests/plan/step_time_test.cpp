// The time of a step: what is recorded, how long each call takes, and how the stages wait for each other.
#include "plan/step_time.h"

#include <gtest/gtest.h>

#include "backend/cost/cost_gpu.h"
#include "plan/call_time.h"
#include "train/memory_plan.h"
#include "train/run_size.h"
#include "train/schedule_replay.h"

namespace trireme {
namespace {

Settings small_settings(int64_t stages, int64_t tp, RecomputeGranularity recompute) {
  Settings settings;
  settings.trainer.devices = stages * tp * 2;
  ModelSettings& model = settings.model;
  model.num_layers = 2 * stages, model.hidden_size = 256, model.ffn_hidden_size = 1024, model.num_attention_heads = 4;
  model.vocab_size = 512, model.encoder_seq_length = model.max_position_embeddings = 128;
  model.pipeline_model_parallel_size = stages, model.tensor_model_parallel_size = tp, model.sequence_parallel = tp > 1;
  model.activations_checkpoint_granularity = recompute;
  model.optim.name = Optimizer::mcore_distributed_optim;
  model.micro_batch_size = 2, model.global_batch_size = 2 * 2 * 4;
  return settings;
}

Platform simple_platform() {
  return {.name = "simple",
          .gpu = {.name = "gpu",
                  .bf16_tflops = 100,
                  .fp8_tflops = 200,
                  .memory_gib = 80,
                  .memory_bandwidth = 1000,
                  .multiprocessors = 100},
          .gpus_per_node = 8,
          .nvlink_domain = 8,
          .nvlink_bandwidth = 100,
          .nvlink_share = 1,
          .network_bandwidth = 10,
          .network_share = 1};
}

// A stage is the sum of the recorded parts: its FLOPs are those of the trainer's own plan of that stage.
TEST(RecordingTest, PartsSumToTheStagesOfTheTrainer) {
  for (const RecomputeGranularity recompute : {RecomputeGranularity::none, RecomputeGranularity::full})
    for (const int64_t tp : {1, 2}) {
      constexpr int64_t kStages = 4;
      const Settings settings = small_settings(kStages, tp, recompute);
      const StepRecording recording = record_step(settings);
      const auto micro_batches = static_cast<double>(run_size(settings).micro_batches);
      for (int64_t stage = 0; stage < kStages; ++stage) {
        PartCalls part = recording.boundary;
        part.add(recording.recomputed_layer, 2);
        if (stage == 0) part.add(recording.embedding, 1);
        if (stage == kStages - 1) part.add(recording.head, 1);
        const EngineSettings engine{.model = settings.model, .precision = settings.trainer.precision, .gradient_clip = 1};
        const MeshPlace place{.shape = {.tp = static_cast<int>(tp), .dp = 2, .pp = kStages},
                              .rank = static_cast<int>(stage * tp * 2)};
        const MemoryPlan plan = plan_memory(engine, CostGpu(), static_cast<int64_t>(micro_batches), place);
        EXPECT_DOUBLE_EQ(micro_batches * (part.forward.flops() + part.backward.flops()), plan.flops)
            << "stage " << stage << " tp " << tp << " recompute " << static_cast<int>(recompute);
      }
    }
}

TEST(RecordingTest, GradientSumsAreOfTheStepAndNotOfEachMicroBatch) {
  Settings settings = small_settings(2, 1, RecomputeGranularity::none);
  const StepRecording recording = record_step(settings);
  const auto bytes_of = [](const PlanCalls& calls, CallKind kind) {
    double bytes = 0;
    for (const PlanCall& call : calls.calls())
      if (call.kind == kind) bytes += call.bytes * call.count;
    return bytes;
  };
  EXPECT_GT(bytes_of(recording.layer.update, CallKind::collective), 0);
  EXPECT_GT(bytes_of(recording.layer.update, CallKind::optimizer), 0);
  EXPECT_EQ(bytes_of(recording.layer.backward, CallKind::collective), 0);
  EXPECT_EQ(bytes_of(recording.layer.backward, CallKind::optimizer), 0);
  // The last micro-batch also narrows the gradients for a sum in bf16.
  settings.model.optim.grad_sync_dtype = SyncType::bf16;
  const StepRecording narrow = record_step(settings);
  EXPECT_EQ(bytes_of(narrow.layer.backward, CallKind::memory), bytes_of(recording.layer.backward, CallKind::memory));
  EXPECT_GT(bytes_of(narrow.layer.update, CallKind::memory), bytes_of(recording.layer.update, CallKind::memory));
}

TEST(CallTimeTest, ACollectiveUsesTheNetworkPortsOfAllItsMembersOfANode) {
  const Platform platform = simple_platform();
  const SoftwareProfile software;
  const CallTimes times(platform, software);
  constexpr double kBytes = 16e9;
  // 7/8 of the bytes over NVLink; 15/16 over eight network ports; over one port if the group has one rank a node.
  EXPECT_DOUBLE_EQ(times.collective_seconds("all_gather", kBytes, 1, {.size = 8, .stride = 1}), kBytes * 7 / 8 / 100e9);
  EXPECT_DOUBLE_EQ(times.collective_seconds("all_gather", kBytes, 1, {.size = 16, .stride = 1}), kBytes * 15 / 16 / 80e9);
  EXPECT_DOUBLE_EQ(times.collective_seconds("all_gather", kBytes, 1, {.size = 16, .stride = 8}), kBytes * 15 / 16 / 10e9);
  EXPECT_DOUBLE_EQ(times.collective_seconds("all_reduce", kBytes, 1, {.size = 8, .stride = 1}), 2 * kBytes * 7 / 8 / 100e9);
  EXPECT_EQ(times.collective_seconds("all_reduce", kBytes, 1, {.size = 1, .stride = 1}), 0);
}

TEST(CallTimeTest, AGemmPaysForTheTilesOfItsLastWaveAndIsFasterInFp8) {
  const Platform platform = simple_platform();
  const SoftwareProfile software;
  const CallTimes times(platform, software);
  const auto gemm = [&](int64_t rows, DType dtype) {
    return times.seconds({.kind = CallKind::gemm, .rows = rows, .columns = 2560, .depth = 8192, .dtype = dtype});
  };
  const double full = gemm(1280, DType::bf16);  // 10 x 10 tiles on 100 multiprocessors
  EXPECT_NEAR(full, 2.0 * 1280 * 2560 * 8192 / 100e12, 1e-9);
  EXPECT_GT(gemm(1281, DType::bf16), 1.2 * full);
  EXPECT_EQ(gemm(1281, DType::bf16), gemm(1400, DType::bf16));
  EXPECT_NEAR(gemm(1280, DType::f8e4m3), full / 2, 1e-9);
}

TEST(CallTimeTest, HeadsOfAnOddWidthAreSlowWithoutFlashAttention) {
  const Platform platform = simple_platform();
  SoftwareProfile software{.attention = AttentionKernel::unfused};
  const CallTimes times(platform, software);
  const auto attention = [&](int64_t width) {
    return times.seconds({.kind = CallKind::attention_forward, .rows = 2048, .columns = 2048, .depth = width, .batches = 16});
  };
  EXPECT_GT(attention(108), 1.5 * attention(112));
}

TEST(PipelineClockTest, TakesTheTimeOfTheClosedForm) {
  struct Case {
    int64_t stages, chunks, micro_batches;
  };
  for (const Case& c : {Case{1, 1, 5}, Case{4, 1, 8}, Case{4, 2, 8}, Case{8, 3, 16}}) {
    const Pipeline pipeline{.stages = c.stages, .chunks = c.chunks, .micro_batches = c.micro_batches};
    const std::vector<double> one(static_cast<size_t>(c.chunks), 1), two(static_cast<size_t>(c.chunks), 2);
    const ActionSeconds seconds{.forward = std::vector(static_cast<size_t>(c.stages), one),
                                .backward = std::vector(static_cast<size_t>(c.stages), two)};
    const Played played = play(pipeline, compute_schedules(pipeline), seconds, KeepTimeline::yes);
    const double work = 3 * static_cast<double>(c.chunks * c.micro_batches);
    EXPECT_DOUBLE_EQ(played.length, work * (1 + closed_form_bubble(pipeline))) << c.stages << " " << c.chunks;
    for (const auto& stage : played.timeline)
      for (size_t i = 1; i < stage.size(); ++i) EXPECT_GE(stage[i].begin, stage[i - 1].end);
  }
}

// Long steps are extrapolated from shorter ones.
TEST(StepTimeTest, AnExtrapolatedStepIsAsLongAsItsTimeline) {
  for (const int64_t micro_batches : {5, 17, 40}) {
    Settings settings = small_settings(4, 1, RecomputeGranularity::none);
    settings.model.global_batch_size = 2 * 2 * micro_batches;
    const PlanCase plan_case(settings, layers_of(settings.model));
    const Platform platform = simple_platform();
    const SoftwareProfile software;
    const StepTimer timer(plan_case, platform, software);
    const StepTime step = timer.time();
    EXPECT_NEAR(timer.timeline().length, step.total - step.dp - step.optimizer - step.other, 1e-9 * step.total) << micro_batches;
    EXPECT_NEAR(step.total, step.compute + step.tp + step.cp + step.pp + step.dp + step.bubble + step.optimizer + step.other,
                1e-9 * step.total);
  }
}

TEST(StepTimeTest, OneStageHasNoBubbleNotEvenByRounding) {
  Settings settings = small_settings(1, 1, RecomputeGranularity::none);
  settings.trainer.devices = 1, settings.model.micro_batch_size = 1;
  for (settings.model.global_batch_size = 2; settings.model.global_batch_size < 20; ++settings.model.global_batch_size)
    EXPECT_EQ(step_time({settings, layers_of(settings.model)}, simple_platform(), {}).bubble, 0)
        << settings.model.global_batch_size;
}

TEST(StepTimeTest, OverlappedGradientSumsCostLess) {
  Settings settings = small_settings(1, 1, RecomputeGranularity::none);
  const Platform platform = simple_platform();
  const SoftwareProfile software;
  const auto dp = [&](bool overlaps) {
    settings.model.optim.overlap_grad_sync = settings.model.optim.overlap_param_sync = overlaps;
    return step_time(PlanCase(settings, layers_of(settings.model)), platform, software).dp;
  };
  EXPECT_LT(dp(true), dp(false));
  EXPECT_GT(dp(true), 0);
}

TEST(StepTimeTest, LayersThatDoNotDivideAreSpread) {
  EXPECT_EQ(spread_layers(8, 2, 2), (StageLayers{{2, 2}, {2, 2}}));
  EXPECT_EQ(spread_layers(70, 12, 1).front(), (std::vector<int64_t>{5}));  // the embedding counts as a layer
  EXPECT_EQ(spread_layers(70, 12, 1)[1], (std::vector<int64_t>{6}));
  EXPECT_EQ(spread_layers(8, 3, 1), (StageLayers{{3}, {3}, {2}}));
}

}  // namespace
}  // namespace trireme

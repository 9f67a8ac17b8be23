#include "train/memory_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backend/cost/cost_gpu.h"
#include "support/engine_fixture.h"

namespace trireme {
namespace {

MemoryPlan plan_of(const ModelSettings& model, const MeshShape& shape = {}) {
  return plan_memory({.model = model, .precision = Precision::bf16, .gradient_clip = 1}, CostGpu(), 4, {shape, 0});
}

int64_t count_of(const MemoryProfile& profile, std::string_view name) {
  for (const MemoryProfile::Alive& each : profile.at_peak)
    if (each.name == name) return each.count;
  return 0;
}

TEST(MemoryProfile, ThePeakIsTheSumOfWhatIsAliveAndFitsWhatIsAllocated) {
  ModelSettings model = small_model();
  model.num_layers = 6;
  const MemoryPlan plan = plan_of(model);
  const MemoryProfile profile = profile_memory(plan);
  int64_t sum = plan.arenas.activations.peak();  // micro-batches on the device
  for (const MemoryProfile::Alive& each : profile.at_peak) sum += each.bytes;
  EXPECT_EQ(profile.peak, sum);
  EXPECT_LE(profile.peak, plan.total());
  EXPECT_EQ(profile.peak, std::ranges::max(profile.over_step));
}

// Forward fills memory, backward empties it: at the peak all layers hold their activations.
TEST(MemoryProfile, AllLayersAreAliveAtThePeak) {
  ModelSettings model = small_model();
  model.num_layers = 6;
  const MemoryProfile profile = profile_memory(plan_of(model));
  EXPECT_EQ(count_of(profile, "qkv"), 6);
  EXPECT_EQ(profile.over_step.size(), static_cast<size_t>(MemoryProfile::kColumns));
  EXPECT_LT(profile.over_step.front(), profile.peak);
  EXPECT_LT(profile.over_step.back(), profile.peak);
}

// The first of two stages holds the activations of two micro-batches.
TEST(MemoryProfile, OtherMicroBatchesAreCounted) {
  ModelSettings model = small_model();
  model.num_layers = 4;
  model.pipeline_model_parallel_size = 2;
  const MemoryProfile profile = profile_memory(plan_of(model, {.pp = 2}));
  EXPECT_EQ(count_of(profile, "qkv"), 2 * 2);
}

TEST(MemoryProfile, IsDrawnAndListed) {
  const MemoryProfile profile{.over_step = {0, 1 << 20, 2 << 20, 1 << 20},
                              .peak = 2 << 20,
                              .peak_at = "backward of micro-batch 3",
                              .at_peak = {{"qkv", 4, 1 << 20}, {"logits", 1, 1 << 10}}};
  EXPECT_EQ(text_of(profile), "in use  ▁▄█▄\npeak    2.0 MiB in backward of micro-batch 3: 4 qkv 1.0 MiB, logits 1.0 KiB");
  EXPECT_EQ(json_of(profile)["at_peak"][0]["count"], 4);
  EXPECT_EQ(json_of(profile)["over_step"].size(), 4U);
}

}  // namespace
}  // namespace trireme

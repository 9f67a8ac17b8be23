// What to change in a run that does not fit: the cheapest combination, as overrides that can be typed.
#include "train/fit_advice.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/overrides.h"
#include "config/settings_printer.h"
#include "config/settings_reader.h"

namespace trireme {
namespace {

Settings gpt(int64_t layers, int64_t width, int64_t heads, int64_t micro_batch, int64_t ranks = 1) {
  Settings settings;
  settings.trainer.devices = ranks;
  ModelSettings& model = settings.model;
  model.num_layers = layers, model.hidden_size = width, model.ffn_hidden_size = 4 * width, model.num_attention_heads = heads;
  model.vocab_size = 50257;
  model.micro_batch_size = micro_batch;
  model.global_batch_size = micro_batch * ranks * 4;
  return settings;
}

// As the user would type them.
Settings with(const Settings& settings, const std::vector<std::string>& overrides) {
  Tree recipe = to_tree(settings);
  for (const std::string& text : overrides) apply_override(recipe, parse_override("++" + text));
  return read_settings(recipe).settings;
}

bool has(const FitAdvice& advice, const std::string& override) { return std::ranges::count(advice.overrides, override) > 0; }

const std::string kOffload = "model.optim.optimizer_cpu_offload=true", kFsdp = "model.fsdp=true",
                  kDistributed = "model.optim.name=distributed_fused_adam",
                  kFull = "model.activations_checkpoint_granularity=full";

TEST(FitAdvice, OverridesAreWhatWasPlanned) {
  const Settings settings = gpt(24, 2048, 16, 16);
  const GpuKind& gpu = find_gpu("a100-40");
  ASSERT_LT(plan_for_target(settings, gpu).left(), 0);
  const auto advice = advise_to_fit(settings, gpu);
  ASSERT_TRUE(advice);
  const TargetPlan again = plan_for_target(with(settings, advice->overrides), gpu);
  EXPECT_EQ(again.total, advice->plan.total);
  EXPECT_GE(again.left(), 0);
  EXPECT_EQ(text_of(advice).rfind(fmt::format("to fit  add {}  (", fmt::join(advice->overrides, " ")), 0), 0u) << text_of(advice);
  EXPECT_EQ(json_of(advice).at("overrides"), nlohmann::json(advice->overrides));
  // Activations are what is too much here: no state moves.
  EXPECT_FALSE(has(*advice, kOffload)) << text_of(advice);
}

// Weights and gradients of 13b take half of the GPU, and the states twice that.
TEST(FitAdvice, StatesMoveToTheHostWhereNothingCheaperHelps) {
  const Settings settings = gpt(40, 5120, 40, 4);
  const auto advice = advise_to_fit(settings, find_gpu("h200-141"));
  ASSERT_TRUE(advice);
  EXPECT_TRUE(has(*advice, kOffload)) << text_of(advice);
  EXPECT_GT(advice->plan.host_states, int64_t{12} * 12'000'000'000);
  EXPECT_NE(text_of(advice).find("of host memory for each rank"), std::string::npos);
}

TEST(FitAdvice, DataParallelRanksShardFirst) {
  const Settings settings = gpt(24, 2560, 32, 2, 8);
  const GpuKind& gpu = find_gpu("a100-40");
  ASSERT_LT(plan_for_target(settings, gpu).left(), 0);
  const auto advice = advise_to_fit(settings, gpu);
  ASSERT_TRUE(advice);
  EXPECT_TRUE(has(*advice, kDistributed) || has(*advice, kFsdp)) << text_of(advice);
  EXPECT_FALSE(has(*advice, kOffload)) << text_of(advice);
}

TEST(FitAdvice, SaysWhenNothingHelps) {
  const auto advice = advise_to_fit(gpt(96, 12288, 96, 1), find_gpu("h100-80"));
  EXPECT_FALSE(advice) << text_of(advice);
  EXPECT_TRUE(json_of(advice).is_null());
}

// With a beta2 close to 1 the second moment stays in 32 bits.
TEST(FitAdvice, KeepsASecondMomentThatBf16WouldFreeze) {
  Settings settings = gpt(24, 2048, 16, 1);
  GpuKind gpu = find_gpu("h100-80");
  settings.model.activations_checkpoint_granularity = RecomputeGranularity::full;
  gpu.memory = plan_for_target(settings, gpu).total - 1;
  settings.model.optim.beta2 = 0.999;
  const auto first = advise_to_fit(settings, gpu);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->overrides, std::vector<std::string>{"model.optim.exp_avg_dtype=bf16"});
  settings.model.optim.beta2 = 0.95;
  const auto both = advise_to_fit(settings, gpu);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->overrides, (std::vector<std::string>{"model.optim.exp_avg_dtype=bf16", "model.optim.exp_avg_sq_dtype=bf16"}));
}

}  // namespace
}  // namespace trireme

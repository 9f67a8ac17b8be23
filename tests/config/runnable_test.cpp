#include "config/runnable.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/user_error.h"

namespace trireme {
namespace {

// FP8 on as many GPUs as the sizes ask for.
Settings fp8_on(int64_t tp, int64_t pp, int64_t dp) {
  Settings settings;
  settings.trainer.backend = BackendKind::cuda;
  settings.trainer.precision = Precision::bf16;
  settings.trainer.devices = tp * pp * dp;
  settings.model.vocab_size = 50257;
  settings.model.fp8.enabled = true;
  settings.model.tensor_model_parallel_size = tp;
  settings.model.pipeline_model_parallel_size = pp;
  return settings;
}

std::string refusal(const Settings& settings) {
  return user_error_of([&] { require_runnable(settings, settings.ranks()); });
}

bool is_idle(const Settings& settings, const std::string& key) {
  const std::vector<std::string> idle = names_of(idle_settings(settings));
  return std::ranges::find(idle, key) != idle.end();
}

TEST(Runnable, Fp8RunsOnAnyNumberOfRanks) {
  EXPECT_EQ(refusal(fp8_on(1, 1, 1)), "");
  EXPECT_EQ(refusal(fp8_on(4, 8, 8)), "");
}

TEST(Runnable, SaysWhatFp8DoesNotDo) {
  Settings put_off = fp8_on(1, 2, 1);
  put_off.model.pipeline_schedule = PipelineSchedule::zero_bubble;
  EXPECT_EQ(refusal(put_off), "model.fp8=true: wgrad in FP8 cannot be deferred; use false, or another model.pipeline_schedule");
  Settings apart = fp8_on(2, 1, 1);
  apart.model.fp8.reduce_amax = false;
  EXPECT_EQ(refusal(apart), "model.reduce_amax=false: all ranks have the same scales; use true");
}

TEST(Runnable, SaysWhatHasNothingToActOnInFp8) {
  Settings settings = fp8_on(2, 1, 2);
  settings.model.ub_tp_comm_overlap = settings.model.fp8.params = true;
  EXPECT_TRUE(is_idle(settings, "model.ub_tp_comm_overlap"));
  EXPECT_FALSE(is_idle(settings, "model.fp8_params"));
  settings.model.optim.name = Optimizer::distributed_fused_adam;
  EXPECT_TRUE(is_idle(settings, "model.fp8_params"));
  settings.trainer.devices = 2;
  EXPECT_FALSE(is_idle(settings, "model.fp8_params"));
}

TEST(Runnable, SaysWhatActsInFp16Only) {
  Settings settings;
  settings.model.loss_scale = {.init_scale = 4096, .growth_interval = 10, .hysteresis = 1};
  for (const char* key : {"model.native_amp_init_scale", "model.native_amp_growth_interval", "model.hysteresis"}) {
    settings.trainer.precision = Precision::bf16;
    EXPECT_TRUE(is_idle(settings, key)) << key;
    settings.trainer.precision = Precision::f16;
    EXPECT_FALSE(is_idle(settings, key)) << key;
  }
  EXPECT_EQ(refusal(settings), "");
  settings.trainer.backend = BackendKind::cuda;
  EXPECT_EQ(refusal(settings), "trainer.precision=16: fp16 is for CPUs; use bf16, or trainer.backend=cpu");
}

TEST(Runnable, SaysWhichStatesStayOnTheDevice) {
  Settings settings = fp8_on(1, 1, 1);
  settings.model.optim.optimizer_cpu_offload = true;
  EXPECT_EQ(refusal(settings), "");
  settings.model.fp8.params = true;
  EXPECT_EQ(
      refusal(settings),
      "model.optim.optimizer_cpu_offload=true: with model.fp8_params the masters are what FP8 weights are made of; use false");
  settings.model.fp8 = {};
  settings.model.peft.scheme = PeftScheme::lora;
  settings.model.optim.exp_avg_dtype = MomentType::bf16;
  EXPECT_EQ(refusal(settings), "model.optim.optimizer_cpu_offload=true: the states of adapters are small; use false");
  EXPECT_TRUE(is_idle(settings, "model.optim.exp_avg_dtype"));
}

// What overlaps, at the start of a run, and what is named as without effect never say the same setting.
TEST(Runnable, SaysWhatActsAndWhatDoesNot) {
  Settings settings = fp8_on(2, 1, 2);
  settings.model.fp8.enabled = false;
  settings.model.ub_tp_comm_overlap = settings.model.optim.overlap_param_sync = true;
  EXPECT_FALSE(is_idle(settings, "model.ub_tp_comm_overlap"));
  EXPECT_TRUE(is_idle(settings, "model.optim.overlap_param_sync"));  // weights are gathered only with a distributed optimizer
  settings.model.optim.name = Optimizer::distributed_fused_adam;
  EXPECT_FALSE(is_idle(settings, "model.optim.overlap_param_sync"));
  settings.trainer.devices = 2;
  EXPECT_TRUE(is_idle(settings, "model.optim.overlap_param_sync"));
  settings.model.context_parallel_size = 2, settings.trainer.devices = 4;  // they share gradients, too
  EXPECT_FALSE(is_idle(settings, "model.optim.overlap_param_sync"));
}

}  // namespace
}  // namespace trireme

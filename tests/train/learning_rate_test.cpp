#include "train/learning_rate.h"

#include <gtest/gtest.h>

#include "train/batch_ramp.h"

namespace trireme {
namespace {

OptimSettings optim(double lr, double min_lr, double warmup, int64_t constant) {
  OptimSettings settings;
  settings.lr = lr;
  settings.sched.min_lr = min_lr;
  settings.sched.warmup_steps = warmup;
  settings.sched.constant_steps = constant;
  return settings;
}

// A published run of GPT-3 175B logged this rate at step 47.
TEST(LearningRateTest, MatchesAPublishedLog) {
  EXPECT_FLOAT_EQ(static_cast<float>(learning_rate(optim(9e-5, 9e-6, 115, 12500), 50, 47)), 3.6782607e-05f);
}

TEST(LearningRateTest, WithConstantTail) {
  const OptimSettings settings = optim(1.0, 0.1, 10, 20);  // decay over 100 - 20 - 10 = 70 steps
  EXPECT_DOUBLE_EQ(learning_rate(settings, 100, 0), 0.0);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 100, 5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 100, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 100, 45), 0.55);  // half way: the mean of both
  EXPECT_DOUBLE_EQ(learning_rate(settings, 100, 80), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 100, 99), 0.1);
}

// warmup < max_steps < warmup + constant: the rate falls straight to its minimum.
TEST(LearningRateTest, ShortRunWithLongTailDropsAfterWarmUp) {
  const OptimSettings settings = optim(1.0, 0.1, 10, 1000);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 50, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 50, 11), 0.1);
}

TEST(LearningRateTest, WithoutConstantTail) {
  const OptimSettings settings = optim(1.0, 0.0, 9, 0);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 109, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 109, 8), 0.9);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 109, 9), 1.0);
  EXPECT_NEAR(learning_rate(settings, 109, 59), 0.5, 1e-15);
  EXPECT_NEAR(learning_rate(settings, 109, 109), 0.0, 1e-15);
}

TEST(LearningRateTest, Constant) {
  OptimSettings settings = optim(2e-4, 0.0, 1, 0);
  settings.sched.name = LearningRateSchedule::constant;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 9), 2e-4);
}

// The one-node proxy of GPT-3 175B: a fraction of a step of warm-up, a cosine laid out for far more steps than the run has.
TEST(LearningRateTest, LaidOutForAnotherNumberOfSteps) {
  OptimSettings settings = optim(2e-5, 2e-6, 132.5, 0);
  settings.sched.name = LearningRateSchedule::cosine_exp;
  settings.sched.max_steps_for_lr_sched = 54300;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 200, 0), 2e-5 / 133.5);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 200, 132), 2e-5 * 133 / 133.5);
  // Half way along the cosine, at 132.5 + 27083.75 steps, the rate is the mean of both ends; half a step more or less changes it
  // by 1.8e-5 * pi / 4 / 54167.5.
  EXPECT_NEAR(learning_rate(settings, 200, 27216), 1.1e-5, 2.7e-10);
  settings.sched.max_steps_for_lr_sched = 0;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 200, 201), 2e-6);
}

TEST(BatchRampTest, GrowsInEqualIncrements) {
  ModelSettings model;
  model.global_batch_size = 64;
  EXPECT_EQ(global_batch_at(model, 0), 64);
  model.rampup_batch_size = {16, 16, 3000};  // three increments, a thousand samples each
  EXPECT_EQ(global_batch_at(model, 0), 16);
  EXPECT_EQ(global_batch_at(model, 999), 16);
  EXPECT_EQ(global_batch_at(model, 1000), 32);
  EXPECT_EQ(global_batch_at(model, 2000), 48);
  EXPECT_EQ(global_batch_at(model, 3001), 64);
}

}  // namespace
}  // namespace trireme

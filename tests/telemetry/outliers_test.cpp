#include "telemetry/outliers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/philox.h"

namespace trireme {
namespace {

double noise(uint32_t i) { return normals(philox(7, {i, 0, 0, 0}))[0]; }

TEST(Outliers, NoFalseAlarmOnNoise) {
  OutlierDetector detector;
  for (uint32_t i = 0; i < 10'000; ++i) EXPECT_FALSE(detector.judge(3 + 0.1 * noise(i))) << i;
}

TEST(Outliers, ASpikeIsFoundAndDoesNotHideTheNext) {
  OutlierDetector detector;
  for (uint32_t i = 0; i < 50; ++i) detector.judge(3 + 0.1 * noise(i));
  for (int spike = 0; spike < 3; ++spike) {
    const std::optional<double> z = detector.judge(4);
    ASSERT_TRUE(z);
    EXPECT_GT(*z, 6);
    EXPECT_FALSE(detector.judge(3.02));
  }
  const std::optional<double> below = detector.judge(1.5);
  ASSERT_TRUE(below);
  EXPECT_LT(*below, -6);
}

// A loss that falls from 11 to 3 with a time constant of 5 to 500 steps, with noise of any size, is training, not trouble.
TEST(Outliers, TheInitialFallIsNoOutlier) {
  for (const double time_constant : {5.0, 20.0, 100.0, 500.0}) {
    for (const double sigma : {0.0, 0.01, 0.1}) {
      OutlierDetector detector;
      for (uint32_t i = 0; i < 1000; ++i) {
        EXPECT_FALSE(detector.judge(3 + 8 * std::exp(-i / time_constant) + sigma * noise(i)))
            << time_constant << ' ' << sigma << ' ' << i;
      }
    }
  }
}

TEST(Outliers, SilentUntilThereAreEnoughValues) {
  OutlierDetector detector;
  for (int i = 0; i < OutlierDetector::kLeast - 1; ++i) EXPECT_FALSE(detector.judge(1 + 0.01 * (i % 2)));
  EXPECT_FALSE(detector.judge(100));
}

TEST(Outliers, AConstantAllowsSmallChangesOnly) {
  OutlierDetector detector;
  for (int i = 0; i < 30; ++i) detector.judge(2);
  EXPECT_FALSE(detector.judge(2.01));  // 0.5%, under six times 0.1%
  EXPECT_TRUE(detector.judge(2.5));
}

TEST(Outliers, ALevelThatStaysBecomesNormal) {
  OutlierDetector detector;
  for (uint32_t i = 0; i < 100; ++i) detector.judge(3 + 0.01 * noise(i));
  int alarms = 0;
  for (uint32_t i = 0; i < 100; ++i) alarms += detector.judge(5 + 0.01 * noise(i)).has_value() ? 1 : 0;
  EXPECT_EQ(alarms, OutlierDetector::kLeast);
}

TEST(Outliers, WhatIsNotFiniteIsIgnored) {
  OutlierDetector detector;
  for (uint32_t i = 0; i < 50; ++i) detector.judge(3 + 0.1 * noise(i));
  EXPECT_FALSE(detector.judge(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(detector.judge(std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(detector.judge(10));
}

TEST(Outliers, AllZeroThenSomething) {
  OutlierDetector detector;
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(detector.judge(0));
  EXPECT_FALSE(detector.judge(1));  // no scale is known: nothing can be said
}

}  // namespace
}  // namespace trireme

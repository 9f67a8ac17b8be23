// Which ranks are found slow, from compute times that the test makes up.
#include "telemetry/stragglers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace trireme {
namespace {

using Kind = StragglerFinding::Kind;

// Two pipeline stages of four ranks; steps of 0.1 s in which a rank computes 0.06 s, or 0.08 s on the second stage.
class Stragglers : public testing::Test {
 protected:
  // One step, with noise of so much on each time.
  void step(double noise = 0.03) {
    std::vector<double> compute;
    std::normal_distribution<double> normal(0, noise);
    for (int rank = 0; rank < 8; ++rank)
      compute.push_back((rank < 4 ? 0.06 : 0.08) * slowness_[static_cast<size_t>(rank)] * std::exp(normal(random_)));
    for (const StragglerFinding& finding : watch_.step(compute, 0.1)) found_.push_back({steps_, finding});
    ++steps_;
  }
  void steps(int count, double noise = 0.03) {
    for (int i = 0; i < count; ++i) step(noise);
  }

  struct Found {
    int64_t step = 0;
    StragglerFinding finding;
  };
  std::vector<double> slowness_ = std::vector<double>(8, 1);
  std::mt19937_64 random_{7};
  StragglerWatch watch_{{0, 0, 0, 0, 1, 1, 1, 1}};
  int64_t steps_ = 0;
  std::vector<Found> found_;
};

TEST_F(Stragglers, ARankThatIsTenPercentSlowerIsNamedWithin50Steps) {
  steps(200);
  slowness_[6] = 1.1;
  steps(50);
  ASSERT_EQ(found_.size(), 1U);
  const StragglerFinding& finding = found_[0].finding;
  EXPECT_EQ(finding.kind, Kind::slow);
  EXPECT_EQ(finding.rank, 6);
  EXPECT_EQ(finding.stage, 1);
  EXPECT_NEAR(finding.excess, 0.1, 0.04);
  EXPECT_NEAR(finding.cost, 0.08, 0.04) << "of 0.1 s: 10% of 0.08 s";
  EXPECT_NE(finding.text().find("more than its peers of stage 1"), std::string::npos) << finding.text();
}

// A quota of 90% of a CPU: the rank stands still for 10 ms whenever it has computed for 90 ms. Four ranks, steps of 27 ms, and
// lognormal noise of this standard deviation on the time of each rank in each step. Returns the steps after which each of so many
// slow ranks was named, in order, and adds the other findings to `false_alarms`.
std::vector<int64_t> steps_until_named(double noise, int runs, int64_t clean_steps, int64_t& false_alarms) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal(0, noise);
  std::vector<int64_t> named;
  for (int run = 0; run < runs; ++run) {
    StragglerWatch watch({0, 0, 0, 0});
    const int64_t slow_from = clean_steps + run % StragglerWatch::kBlockSteps;
    double busy = 0.001 * (run % 90);
    for (int64_t step = 0, end = slow_from + 1000; step < end; ++step) {
      std::vector<double> compute;
      for (int rank = 0; rank < 4; ++rank) compute.push_back(0.0243 * std::exp(normal(random)));
      if (step >= slow_from)
        for (busy += compute[3]; busy >= 0.09; busy -= 0.09) compute[3] += 0.01;
      for (const StragglerFinding& finding : watch.step(compute, 0.027)) {
        if (finding.rank != 3 || step < slow_from) {
          ++false_alarms;
          continue;
        }
        named.push_back(step + 1 - slow_from);
        end = 0;
      }
    }
  }
  std::ranges::sort(named);
  return named;
}

TEST_F(Stragglers, AQuotaIsFoundWithin50Steps) {
  int64_t false_alarms = 0;
  const std::vector<int64_t> calm = steps_until_named(0.02, 200, 300, false_alarms);
  ASSERT_EQ(calm.size(), 200U);
  EXPECT_LE(calm.back(), 50) << "all of 200";
  // The noisier the steps, the more of them it takes.
  const std::vector<int64_t> noisy = steps_until_named(0.03, 200, 300, false_alarms);
  ASSERT_EQ(noisy.size(), 200U);
  EXPECT_LE(noisy[189], 50) << "95% of 200";
  const std::vector<int64_t> noisiest = steps_until_named(0.2, 20, 300, false_alarms);
  ASSERT_EQ(noisiest.size(), 20U);
  EXPECT_GT(noisiest[10], 100);
  EXPECT_EQ(false_alarms, 0);
}

// A quota of CPU time: the rank stands still for 10 ms of every 100 ms, which falls into some of its steps only.
TEST_F(Stragglers, ARankThatStandsStillNowAndThenIsFoundToo) {
  StragglerWatch watch({0, 0});
  double busy = 0;
  std::vector<int64_t> named;
  for (int64_t step = 0; step < 50; ++step) {
    double slow = 0.036;
    for (busy += slow; busy >= 0.09; busy -= 0.09) slow += 0.01;
    for (const StragglerFinding& finding : watch.step(std::vector{0.036, slow}, 0.05))
      if (finding.kind == Kind::slow) named.push_back(finding.rank);
  }
  EXPECT_EQ(named, std::vector<int64_t>{1});
}

// Ten times as many steps as one false alarm is allowed for, at each of these standard deviations.
TEST_F(Stragglers, CleanStepsRaiseNoAlarm) {
  for (const double noise : {0.01, 0.03, 0.1, 0.3}) {
    watch_ = StragglerWatch({0, 0, 0, 0, 1, 1, 1, 1});
    steps(100'000, noise);
    EXPECT_TRUE(found_.empty()) << noise << " " << found_.front().step << " " << found_.front().finding.text();
  }
}

// The times of a rank follow each other: an autoregressive process of a few steps.
TEST_F(Stragglers, NoiseThatLastsForStepsRaisesNoAlarm) {
  std::normal_distribution<double> normal(0, 0.03);
  std::vector<double> drift(8);
  for (int i = 0; i < 10'000; ++i) {
    for (size_t rank = 0; rank < 8; ++rank) {
      drift[rank] = 0.7 * drift[rank] + normal(random_);
      slowness_[rank] = std::exp(drift[rank]);
    }
    step(0.01);
  }
  EXPECT_TRUE(found_.empty()) << found_.front().step << " " << found_.front().finding.text();
}

// Every rank is slow now and then, for one step in twenty, by up to ten times.
TEST_F(Stragglers, PausesOfTheMachineRaiseNoAlarm) {
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 10'000; ++i) {
    for (double& slowness : slowness_) slowness = uniform(random_) < 0.02 ? 1 + uniform(random_) : 1;
    step();
  }
  EXPECT_TRUE(found_.empty()) << found_.front().step << " " << found_.front().finding.text();
}

TEST_F(Stragglers, AStageMayBeSlowerThanAnother) {
  for (size_t rank = 4; rank < 8; ++rank) slowness_[rank] = 2;
  steps(1000);
  EXPECT_TRUE(found_.empty());
}

TEST_F(Stragglers, ARankThatRecoversIsSaidOnce) {
  slowness_[0] = 1.2;
  steps(1000);
  slowness_[0] = 1;
  steps(1000);
  ASSERT_EQ(found_.size(), 2U);
  EXPECT_EQ(found_[1].finding.kind, Kind::recovered);
  EXPECT_EQ(found_[1].finding.rank, 0);
}

TEST_F(Stragglers, StepsWithoutTimesAndRanksWithoutPeersAreLeftOut) {
  StragglerWatch alone({0, 1});
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(alone.step(std::vector{0.1, 0.2}, 0.3).empty());
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(watch_.step(std::vector<double>(8, 0), 0.1).empty());
}

TEST_F(Stragglers, ShortStepsAreJudgedByTheirSumOverTime) {
  StragglerWatch watch({0, 0});
  int64_t named_at = -1;
  for (int64_t step = 0; step < 10'000 && named_at < 0; ++step)
    if (!watch.step(std::vector{0.0005, 0.0006}, 0.001).empty()) named_at = step;
  EXPECT_GE(named_at, 700 - 10) << "7 blocks of 0.1 s";
  EXPECT_LE(named_at, 700 + 10);
}

}  // namespace
}  // namespace trireme

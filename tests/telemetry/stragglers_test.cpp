// Which ranks are found slow, from compute times that the test makes up.
#include "telemetry/stragglers.h"

#include <gtest/gtest.h>

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

TEST_F(Stragglers, CleanStepsRaiseNoAlarm) {
  steps(10'000);
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
  EXPECT_GE(named_at, 2000 - 10) << "8 blocks of 0.25 s";
  EXPECT_LE(named_at, 2000 + 10);
}

}  // namespace
}  // namespace trireme

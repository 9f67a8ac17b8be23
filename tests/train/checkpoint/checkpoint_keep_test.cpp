#include <gtest/gtest.h>

#include "base/file.h"
#include "train/checkpoint/checkpoint_fixture.h"

namespace trireme {
namespace {

using Steps = std::vector<int64_t>;

TEST(StepsToRemove, KeepsTheLast) {
  const std::vector<CheckpointSummary> all = {{1, {}}, {2, {}}, {3, {}}, {4, {}}};
  EXPECT_EQ(steps_to_remove(all, 4, {.keep_last = 2, .keep_best = 0}), Steps({2, 1}));
  EXPECT_TRUE(steps_to_remove(all, 4, {.keep_last = 10, .keep_best = 0}).empty());
  EXPECT_TRUE(steps_to_remove(all, 4, {.keep_last = 1, .keep_best = -1}).empty());
}

TEST(StepsToRemove, KeepsTheBestThatHaveALoss) {
  const std::vector<CheckpointSummary> all = {{1, 2.0}, {2, 1.0}, {3, {}}, {4, 1.5}, {5, 3.0}, {6, {}}};
  EXPECT_EQ(steps_to_remove(all, 6, {.keep_last = 1, .keep_best = 2}), Steps({5, 3, 1}));
}

TEST(StepsToRemove, OfEqualLossesTheLaterStays) {
  const std::vector<CheckpointSummary> all = {{1, 1.0}, {2, 1.0}, {3, 9.0}};
  EXPECT_EQ(steps_to_remove(all, 3, {.keep_last = 1, .keep_best = 1}), Steps({1}));
}

TEST(StepsToRemove, TheNewestAlwaysStays) {
  const std::vector<CheckpointSummary> all = {{1, 1.0}, {2, 5.0}};
  EXPECT_EQ(steps_to_remove(all, 2, {.keep_last = 0, .keep_best = 0}), Steps({1}));
  // Saved after going back to an earlier step: later ones of the abandoned run are no reason to lose it.
  EXPECT_TRUE(steps_to_remove(all, 1, {.keep_last = 1, .keep_best = 0}).empty());
}

using CheckpointKeep = CheckpointTest;

TEST_F(CheckpointKeep, LastTwoAndBestOne) {
  const Retention retention{.keep_last = 2, .keep_best = 1};
  save(1, retention, 4.0);
  save(2, retention, 2.0);
  save(3, retention, 3.0);
  EXPECT_EQ(names(), Names({"step-00000002", "step-00000003"}));
  save(4, retention);
  save(5, retention, 5.0);
  EXPECT_EQ(names(), Names({"step-00000002", "step-00000004", "step-00000005"}));
  save(6, retention, 1.0);
  EXPECT_EQ(names(), Names({"step-00000005", "step-00000006"}));
}

TEST_F(CheckpointKeep, DamagedOnesDoNotCountAndAreLeft) {
  save(1);
  save(2);
  std::filesystem::remove(manifest_of(2));
  save(3, {.keep_last = 2, .keep_best = 0});
  EXPECT_EQ(names(), Names({"step-00000001", "step-00000002", "step-00000003"}));
}

TEST(CheckpointNames, AreStepsAndNothingElse) {
  EXPECT_EQ(checkpoint_name(100), "step-00000100");
  EXPECT_EQ(step_of("step-00000100"), 100);
  EXPECT_EQ(step_of(checkpoint_name(123'456'789'012)), 123'456'789'012);
  for (const char* name : {"step-", "step-100", "step-00000100.writing", "step--0000100", "step-+0000100", "latest",
                           "xstep-00000100", "step-99999999999999999999"})
    EXPECT_FALSE(step_of(name)) << name;
}

}  // namespace
}  // namespace trireme

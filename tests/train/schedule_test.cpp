#include "train/schedule.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme {
namespace {

using Kind = ActionKind;

TEST(ScheduleTest, OneStageAlternates) {
  const std::vector<Action> expected{
      {Kind::forward, 0, 0}, {Kind::backward, 0, 0}, {Kind::forward, 1, 0}, {Kind::backward, 1, 0}};
  const auto schedule = make_schedule(ScheduleKind::one_forward_one_backward, 1, 2, 0);
  EXPECT_EQ(schedule, expected);
  EXPECT_EQ(slots_needed(schedule), 1);
}

TEST(ScheduleTest, ForwardOnly) {
  const std::vector<Action> expected{{Kind::forward_only, 0, 0}, {Kind::forward_only, 1, 0}};
  EXPECT_EQ(make_schedule(ScheduleKind::forward_only, 1, 2, 0), expected);
}

// On every stage of every layout: each micro-batch forward once and backward once after it, at most stages - stage of them alive,
// no slot used by two at once, and what is sent is what the neighbour receives, in the same order.
TEST(ScheduleTest, EveryLayoutIsConsistent) {
  for (int64_t stages = 1; stages <= 5; ++stages)
    for (int64_t micro_batches = 1; micro_batches <= 7; ++micro_batches) {
      std::vector<std::map<Kind, std::vector<int64_t>>> done(static_cast<size_t>(stages));
      for (int64_t stage = 0; stage < stages; ++stage) {
        std::map<int64_t, int64_t> alive;  // slot -> micro-batch
        const auto schedule = make_schedule(ScheduleKind::one_forward_one_backward, stages, micro_batches, stage);
        for (const Action& action : schedule) {
          done[static_cast<size_t>(stage)][action.kind].push_back(action.micro_batch);
          if (action.kind == Kind::forward) {
            ASSERT_FALSE(alive.contains(action.slot));
            alive[action.slot] = action.micro_batch;
          }
          if (action.kind == Kind::backward) {
            ASSERT_EQ(alive.at(action.slot), action.micro_batch);
            alive.erase(action.slot);
          }
          ASSERT_LE(static_cast<int64_t>(alive.size()), stages - stage);
        }
        ASSERT_TRUE(alive.empty());
        EXPECT_LE(slots_needed(schedule), stages - stage);
      }
      for (size_t stage = 0; stage < done.size(); ++stage) {
        ASSERT_EQ(static_cast<int64_t>(done[stage][Kind::forward].size()), micro_batches);
        ASSERT_EQ(done[stage][Kind::forward], done[stage][Kind::backward]);
        if (stage + 1 == done.size()) continue;
        EXPECT_EQ(done[stage][Kind::send_forward], done[stage + 1][Kind::receive_forward]);
        EXPECT_EQ(done[stage][Kind::receive_backward], done[stage + 1][Kind::send_backward]);
      }
    }
}

}  // namespace
}  // namespace trireme

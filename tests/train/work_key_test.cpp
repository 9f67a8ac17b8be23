// A recorded graph is replayed only for the work it was recorded from.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "train/engine.h"

namespace trireme {
namespace {

WorkKey key_with(const Action& action) { return work_key_of(action, Fp8Scaling::delayed); }

// The other fields are 1: in a key of 11 bits per field, 2,048 would vanish in the 1 of its neighbour.
TEST(WorkKey, TellsSlotsAndChunksApartHoweverManyThereAre) {
  const Action base{.kind = ActionKind::backward, .micro_batch = 5, .chunk = 1, .slots = {1, 1, 1, 1}};
  std::vector<Action> actions;
  for (const int64_t value : {int64_t{0}, int64_t{1} << 11, int64_t{1} << 22, int64_t{1} << 33}) {
    for (int64_t Slots::*ring : {&Slots::batch, &Slots::saved, &Slots::inputs, &Slots::gradients}) {
      actions.push_back(base);
      actions.back().slots.*ring = value;
    }
    actions.push_back(base);
    actions.back().chunk = value;
  }
  std::set<WorkKey> keys;
  for (const Action& action : actions) EXPECT_TRUE(keys.insert(key_with(action)).second) << keys.size();
}

TEST(WorkKey, IsTheSameForMicroBatchesThatDifferOnlyInTheirData) {
  const Action second{.kind = ActionKind::forward, .micro_batch = 1}, third{.kind = ActionKind::forward, .micro_batch = 2};
  EXPECT_EQ(key_with(second), key_with(third));
  EXPECT_NE(key_with(second), key_with({.kind = ActionKind::forward, .micro_batch = 0}));  // it writes gradients, they add
  EXPECT_NE(key_with(second), key_with({.kind = ActionKind::forward_only, .micro_batch = 1}));
  EXPECT_NE(key_with(second), work_key_of(second, Fp8Scaling::current));
}

}  // namespace
}  // namespace trireme

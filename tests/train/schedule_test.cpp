#include "train/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "train/schedule_replay.h"

namespace trireme {
namespace {

using Kind = ActionKind;
using enum ScheduleKind;

TEST(Schedule, OneStageAlternates) {
  const std::vector<Action> expected{{Kind::forward, 0}, {Kind::backward, 0}, {Kind::forward, 1}, {Kind::backward, 1}};
  const auto schedule = make_schedule({.kind = one_forward_one_backward, .micro_batches = 2}, 0);
  EXPECT_EQ(schedule, expected);
  EXPECT_EQ(slots_needed(schedule), (Slots{1, 1, 1, 0}));
}

TEST(Schedule, ForwardOnly) {
  const std::vector<Action> expected{{Kind::forward_only, 0}, {Kind::forward_only, 1}};
  EXPECT_EQ(make_schedule({.kind = forward_only, .micro_batches = 2}, 0), expected);
}

TEST(Schedule, ZeroBubbleKeepsWeightProductsBack) {
  const auto kinds = [](int64_t stage) {
    std::string text;
    for (const Action& action : make_schedule({.kind = zero_bubble, .stages = 3, .micro_batches = 4}, stage))
      if (is_compute(action.kind)) text += action.kind == Kind::forward ? 'f' : action.kind == Kind::backward_input ? 'b' : 'w';
    return text;
  };
  EXPECT_EQ(kinds(0), "fffbwfbwbwbw");
  EXPECT_EQ(kinds(1), "ffbfbwfbwbww");
  EXPECT_EQ(kinds(2), "fbfbfbwfbwww");
}

// All pipelines with up to 8 stages, 4 chunks and 32 micro-batches.
template <class Test>
void for_every_pipeline(Test test) {
  for (const ScheduleKind kind : {one_forward_one_backward, gpipe, zero_bubble, forward_only})
    for (const Messages messages : {Messages::waited, Messages::overlapped})
      for (int64_t stages = 1; stages <= 8; ++stages)
        for (int64_t chunks = 1; chunks <= 4; ++chunks)
          for (int64_t micro_batches = 1; micro_batches <= 32; ++micro_batches) {
            const bool in_chunks = kind == one_forward_one_backward || kind == forward_only;
            if (chunks > 1 && (!in_chunks || stages == 1)) continue;
            if (chunks > 1 && kind == one_forward_one_backward && micro_batches % stages != 0) continue;
            const Pipeline pipeline{kind, stages, chunks, micro_batches, messages};
            SCOPED_TRACE(testing::Message() << "schedule " << static_cast<int>(kind) << ", " << stages << " stages, " << chunks
                                            << " chunks, " << micro_batches << " micro-batches, "
                                            << (messages == Messages::waited ? "waited" : "overlapped"));
            test(pipeline);
            if (testing::Test::HasFatalFailure()) return;
          }
}

using Pass = std::pair<int64_t, int64_t>;  // micro-batch and chunk

// Between its first and its last use a slot belongs to one chunk of one micro-batch.
class Ring {
 public:
  void use(int64_t slot, const Pass& pass) {
    ASSERT_TRUE(!held_.contains(slot) || held_[slot] == pass) << "slot " << slot;
    held_[slot] = pass;
    slots_ = std::max(slots_, slot + 1);
    most_ = std::max(most_, held_.size());
  }
  void free(int64_t slot) { held_.erase(slot); }
  // No slot is there that is not needed at some time.
  void check() const { ASSERT_EQ(static_cast<size_t>(slots_), most_); }

 private:
  std::map<int64_t, Pass> held_;
  int64_t slots_ = 0;
  size_t most_ = 0;
};

void check_stage(const Pipeline& pipeline, int64_t stage) {
  std::map<Kind, std::vector<Pass>> done;
  Ring saved, inputs, gradients;
  size_t most_alive = 0, alive = 0;
  for (const Action& a : make_schedule(pipeline, stage)) {
    const Pass pass{a.micro_batch, a.chunk};
    done[a.kind].push_back(pass);
    if (!is_compute(a.kind)) continue;
    if (a.kind != Kind::backward_weight) saved.use(a.slots.saved, pass);
    inputs.use(a.slots.inputs, pass);
    if (a.kind == Kind::forward) most_alive = std::max(most_alive, ++alive);
    if (a.kind == Kind::backward_input || a.kind == Kind::backward_weight) gradients.use(a.slots.gradients, pass);
    if (a.kind == Kind::backward || a.kind == Kind::backward_input || a.kind == Kind::forward_only) saved.free(a.slots.saved);
    if (a.kind == Kind::backward || a.kind == Kind::backward_weight || a.kind == Kind::forward_only) {
      inputs.free(a.slots.inputs);
      --alive;
    }
    if (a.kind == Kind::backward_weight) gradients.free(a.slots.gradients);
  }
  for (const Ring* ring : {&saved, &inputs, &gradients}) ring->check();
  // Every pass once, and both halves of backward.
  const bool trains = pipeline.kind != forward_only, halves = pipeline.kind == zero_bubble;
  for (const Kind kind : {Kind::forward, Kind::forward_only, Kind::backward, Kind::backward_input, Kind::backward_weight}) {
    const bool expected = kind == Kind::forward        ? trains
                          : kind == Kind::forward_only ? !trains
                          : kind == Kind::backward     ? trains && !halves
                                                       : halves;
    const std::set<Pass> passes(done[kind].begin(), done[kind].end());
    ASSERT_EQ(passes.size(), expected ? static_cast<size_t>(pipeline.chunks * pipeline.micro_batches) : 0);
    ASSERT_EQ(passes.size(), done[kind].size());
  }
  // What 1F1B is for: no stage holds more micro-batches than there are stages; interleaved holds a little more.
  const int64_t most = pipeline.kind == gpipe || pipeline.kind == forward_only ? pipeline.micro_batches
                       : pipeline.kind == zero_bubble                          ? pipeline.stages
                       : pipeline.chunks == 1                                  ? pipeline.stages - stage
                                                                               : pipeline.stages * (pipeline.chunks + 1) - 1;
  ASSERT_LE(most_alive, static_cast<size_t>(most));
}

TEST(Schedule, EveryPassOnceInMemoryOfItsOwn) {
  for_every_pipeline([](const Pipeline& pipeline) {
    for (int64_t stage = 0; stage < pipeline.stages; ++stage) check_stage(pipeline, stage);
  });
}

// What a stage sends is what its neighbour receives, in the same order: micro-batch, and the number of the chunk among all.
TEST(Schedule, MessagesPairUpInOrder) {
  for_every_pipeline([](const Pipeline& p) {
    using Message = std::pair<int64_t, int64_t>;  // micro-batch and boundary between chunks
    std::vector<std::vector<Action>> schedules;
    for (int64_t stage = 0; stage < p.stages; ++stage) schedules.push_back(make_schedule(p, stage));
    const auto messages = [&](int64_t stage, Kind kind) {
      std::vector<Message> list;
      for (const Action& a : schedules[static_cast<size_t>(stage)]) {
        const int64_t number = a.chunk * p.stages + stage;
        const bool behind = kind == Kind::send_forward || kind == Kind::receive_backward;
        if (a.kind == kind) list.push_back({a.micro_batch, behind ? number : number - 1});
      }
      return list;
    };
    for (int64_t stage = 0; stage < p.stages; ++stage) {
      const int64_t behind = (stage + 1) % p.stages;
      ASSERT_EQ(messages(stage, Kind::send_forward), messages(behind, Kind::receive_forward));
      ASSERT_EQ(messages(behind, Kind::send_backward), messages(stage, Kind::receive_backward));
    }
  });
}

TEST(Schedule, NeverDeadlocksAndHasTheBubbleAndMessagesOfItsClosedForm) {
  for_every_pipeline([](const Pipeline& pipeline) {
    const Replay played = replay(pipeline);
    ASSERT_EQ(played.stuck, "");
    ASSERT_EQ(played.messages, closed_form_messages(pipeline));
    if (pipeline.kind == forward_only) return;
    // Stages that wait for their messages cannot put weight products where ZB-H1 wants them.
    if (pipeline.kind == zero_bubble && pipeline.messages == Messages::waited) return;
    ASSERT_NEAR(played.bubble(), closed_form_bubble(pipeline), 1e-12);
  });
}

TEST(Schedule, TheClosedFormsAreThoseOfTheLiterature) {
  EXPECT_DOUBLE_EQ(closed_form_bubble({.stages = 8, .micro_batches = 64}), 7.0 / 64);
  EXPECT_DOUBLE_EQ(closed_form_bubble({.kind = gpipe, .stages = 4, .micro_batches = 8}), 3.0 / 8);
  EXPECT_DOUBLE_EQ(closed_form_bubble({.stages = 8, .chunks = 6, .micro_batches = 64}), 7.0 / (6 * 64));
  EXPECT_DOUBLE_EQ(closed_form_bubble({.kind = zero_bubble, .stages = 8, .micro_batches = 64}), 7.0 / (3 * 64));
  EXPECT_EQ(closed_form_messages({.stages = 8, .chunks = 6, .micro_batches = 64}), 2 * 64 * 47);
}

}  // namespace
}  // namespace trireme

// Which ranks hang, judged from their heartbeats, in time that the test makes up.
#include "comm/rank_watch.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

namespace trireme {
namespace {

using Kind = HangFinding::Kind;

// Rank 0 and its heartbeats from others.
class RankWatchTest : public testing::Test {
 protected:
  // Every rank moves or stands still, and sends a heartbeat, for so many seconds.
  void pass(double seconds) {
    for (const double end = now_ + seconds; now_ < end - 1e-6;) {
      now_ += 0.5;
      for (int rank = 0; rank < kRanks; ++rank) {
        Activity& activity = ranks_[rank];
        if (moves_[rank]) activity.calls += 1, activity.still = 0;
        if (!moves_[rank]) activity.still += 0.5;
        if (rank == 0) watch_.observe(activity, now_);
        if (rank > 0 && beats_[rank]) watch_.hear(rank, activity, now_);
      }
      for (const HangFinding& finding : watch_.judge(now_, median_, [&](int rank) { return answers_[rank]; }))
        found_.push_back({finding, now_});
    }
  }
  void stand_still(int rank) { moves_[rank] = false; }
  void wait_for(int culprit) {
    for (int rank = 0; rank < kRanks; ++rank)
      if (rank != culprit) ranks_[rank].waits = true, moves_[rank] = false;
  }

  static constexpr int kRanks = 4;
  struct Found {
    HangFinding finding;
    double at = 0;
  };
  Activity ranks_[kRanks] = {};
  bool moves_[kRanks] = {true, true, true, true}, beats_[kRanks] = {true, true, true, true},
       answers_[kRanks] = {true, true, true, true};
  double now_ = 0, median_ = 0.2;
  RankWatch watch_{0, kRanks, 0};
  std::vector<Found> found_;

  RankWatchTest() {
    for (Activity& rank : ranks_) rank = {.phase = RunPhase::step, .step = 16, .micro_batch = 2};
  }
};

TEST_F(RankWatchTest, RanksThatMoveAreLeftAlone) {
  pass(1000);
  EXPECT_TRUE(found_.empty());
}

TEST_F(RankWatchTest, TheRankThatHangsIsNamedAndThoseThatWaitForItAreNot) {
  pass(10);
  stand_still(2);
  wait_for(2);
  pass(30);
  ASSERT_GE(found_.size(), 2U);
  EXPECT_EQ(found_[0].finding.kind, Kind::lags);
  EXPECT_EQ(found_[0].finding.rank, 2);
  EXPECT_LE(found_[0].at, 15) << "5 s";
  EXPECT_GE(found_[0].at, 14);
  EXPECT_EQ(found_[0].finding.text, "step 17, micro-batch 3, collective 20, no progress for 4 s");
  EXPECT_EQ(found_[1].finding.kind, Kind::hangs);
  EXPECT_EQ(found_[1].finding.rank, 2);
  EXPECT_LE(found_[1].at, 20);
}

TEST_F(RankWatchTest, PatienceGrowsWithTheStep) {
  median_ = 10;
  stand_still(2);
  wait_for(2);
  pass(38.5);
  EXPECT_TRUE(found_.empty());
  pass(1.5);
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(found_[0].finding.rank, 2);
}

TEST_F(RankWatchTest, ARankThatContinuesIsForgiven) {
  stand_still(1);
  wait_for(1);
  pass(7);
  for (int rank = 0; rank < kRanks; ++rank) moves_[rank] = true, ranks_[rank].waits = false;
  pass(100);
  ASSERT_EQ(found_.size(), 2U);
  EXPECT_EQ(found_[1].finding.kind, Kind::continues);
  EXPECT_EQ(found_[1].finding.rank, 1);
}

TEST_F(RankWatchTest, PhasesThatMayTakeLongAreNotJudged) {
  for (const RunPhase phase : {RunPhase::start_up, RunPhase::first_steps, RunPhase::first_validation, RunPhase::checkpoint,
                               RunPhase::profiling, RunPhase::stopping}) {
    ranks_[3].phase = phase;
    stand_still(3);
    wait_for(3);
    pass(400);
    EXPECT_TRUE(found_.empty()) << name_of(phase);
  }
}

TEST_F(RankWatchTest, SlowDataIsNamedAndEndsNothing) {
  ranks_[3].phase = RunPhase::data;
  stand_still(3);
  wait_for(3);
  pass(400);
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(found_[0].finding.kind, Kind::lags);
  EXPECT_EQ(found_[0].finding.seconds_left, 0);
}

TEST_F(RankWatchTest, AStoppedProcessIsSilentInAnyPhase) {
  ranks_[1].phase = RunPhase::checkpoint;
  pass(10);
  beats_[1] = false;
  wait_for(1);
  pass(11);
  ASSERT_GE(found_.size(), 2U);
  EXPECT_EQ(found_[0].finding.rank, 1);
  EXPECT_LE(found_[0].at, 15.5);
  EXPECT_EQ(found_[0].finding.text, "checkpoint after step 16, collective 20, silent for 6 s: its process is stopped");
  EXPECT_EQ(found_[1].finding.kind, Kind::hangs);
}

// A link that was cut for ten seconds, and TCP that sends again three seconds later.
TEST_F(RankWatchTest, AMachineThatDoesNotAnswerMayComeBack) {
  pass(10);
  beats_[1] = answers_[1] = false;
  wait_for(1);
  pass(13);
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(found_[0].finding.kind, Kind::lags);
  beats_[1] = answers_[1] = true;
  for (int rank = 0; rank < kRanks; ++rank) moves_[rank] = true, ranks_[rank].waits = false;
  pass(100);
  ASSERT_EQ(found_.size(), 2U);
  EXPECT_EQ(found_[1].finding.kind, Kind::continues);
}

// A link is cut for 10 s. Heartbeats are back at once; TCP sends the data of the collective again up to 13 s later.
TEST_F(RankWatchTest, ALinkThatIsMendedGetsTimeToSendAgain) {
  pass(10);
  wait_for(3);
  stand_still(3);
  ranks_[3].waits = true;
  beats_[3] = answers_[3] = false;
  pass(10);
  beats_[3] = answers_[3] = true;
  pass(13);
  for (int rank = 0; rank < kRanks; ++rank) ranks_[rank].waits = false, moves_[rank] = true;
  pass(100);
  ASSERT_EQ(found_.size(), 2U);
  EXPECT_EQ(found_[0].finding.kind, Kind::lags);
  EXPECT_EQ(found_[1].finding.kind, Kind::continues);
}

// Its machine answers as soon as the link is mended, its heartbeats take longer.
TEST_F(RankWatchTest, AMachineThatAnswersAgainGetsTimeToSpeak) {
  pass(10);
  wait_for(3);
  stand_still(3);
  beats_[3] = answers_[3] = false;
  pass(10);
  answers_[3] = true;
  pass(12);
  beats_[3] = true;
  for (int rank = 0; rank < kRanks; ++rank) ranks_[rank].waits = false, moves_[rank] = true;
  pass(100);
  ASSERT_EQ(found_.size(), 2U);
  EXPECT_EQ(found_[1].finding.kind, Kind::continues);
}

TEST_F(RankWatchTest, ThisProcessWasPausedAndBlamesNobody) {
  pass(10);
  now_ += 3600;  // SIGSTOP of the whole job, or a laptop that slept
  watch_.forgive(now_);
  for (Activity& rank : ranks_) rank.still = 0;
  pass(100);
  EXPECT_TRUE(found_.empty());
}

TEST_F(RankWatchTest, WhereAllWaitTheJobHangs) {
  wait_for(-1);
  pass(10);
  ASSERT_GE(found_.size(), 1U);
  EXPECT_EQ(found_[0].finding.rank, kWholeJob);
  EXPECT_EQ(found_.back().finding.kind, Kind::hangs);
}

// A host that stands still in front of its GPU may wait for other ranks there.
TEST_F(RankWatchTest, OnDevicesOnlyTheWholeJobIsJudged) {
  for (Activity& rank : ranks_) rank.phase = RunPhase::device_step;
  stand_still(1);
  pass(400);
  EXPECT_TRUE(found_.empty());
  for (int rank = 0; rank < kRanks; ++rank) stand_still(rank);
  pass(20);
  ASSERT_GE(found_.size(), 1U);
  EXPECT_EQ(found_[0].finding.rank, kWholeJob);
}

TEST_F(RankWatchTest, WhoHasLeftIsNotJudged) {
  watch_.leave_out(1);
  beats_[1] = false;
  pass(100);
  EXPECT_TRUE(found_.empty());
}

TEST(ActivityTest, TheMedianIsKnownAfterTheFirstSteps) {
  struct FakeClock final : Clock {
    double seconds() const override { return now; }
    int64_t unix_microseconds() const override { return 0; }
    double now = 0;
  } clock;
  ActivityBoard board(clock);
  EXPECT_EQ(board.seen().text(), "start-up");
  for (int step = 0; step < 3; ++step, clock.now += 30) {
    board.begin_step(step);
    EXPECT_EQ(board.phase(), RunPhase::first_steps);
    EXPECT_EQ(board.median_step_seconds(), 0);
  }
  for (int step = 3; step < 40; ++step, clock.now += 2) board.begin_step(step);
  EXPECT_EQ(board.phase(), RunPhase::step);
  EXPECT_EQ(board.median_step_seconds(), 2);
  board.begin_micro_batch(4);
  {
    const DuringPhase saving(board, RunPhase::checkpoint);
    EXPECT_EQ(board.seen().text(), "checkpoint after step 39");
  }
  EXPECT_EQ(board.seen().text(), "step 40, micro-batch 5");
  const Activity activity = activity_of(json_of(board.seen()));
  EXPECT_EQ(activity.text(), board.seen().text());
}

TEST(ActivityTest, EveryMicrosecondBelongsToOnePhase) {
  struct Manual final : Clock {
    double now = 1000;
    double seconds() const override { return now; }
    int64_t unix_microseconds() const override { return 0; }
  } clock;
  ActivityBoard board(clock, 2.5);  // the process began at 997.5
  clock.now += 1;
  board.begin_step(0);
  clock.now += 3;
  {
    const DuringPhase waiting(board, RunPhase::data);
    clock.now += 0.25;
  }
  clock.now += 1;
  board.enter(RunPhase::stopping);
  clock.now += 0.125;
  const ActivityBoard::PhaseTimes& times = board.times();
  const auto of = [&](RunPhase phase) { return times[static_cast<size_t>(phase)]; };
  EXPECT_EQ(of(RunPhase::start_up), 3'500'000);
  EXPECT_EQ(of(RunPhase::first_steps), 4'000'000);
  EXPECT_EQ(of(RunPhase::data), 250'000);
  EXPECT_EQ(of(RunPhase::stopping), 125'000);
  EXPECT_EQ(std::accumulate(times.begin(), times.end(), int64_t{0}), 7'875'000);
}

}  // namespace
}  // namespace trireme

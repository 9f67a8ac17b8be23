// Every rank hears the votes of all ranks as they were given.
#include "train/agreement.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "comm/local_transport.h"

namespace trireme {
namespace {

constexpr int64_t kNoDouble = (int64_t{1} << 53) + 1;  // the least that a double cannot hold

// What rank `listener` heard in the second of two exchanges among `ranks` ranks.
std::vector<StepVote> heard_by(int listener, int ranks, const std::vector<StepVote>& votes) {
  auto transports = LocalTransport::connect(ranks);
  std::vector<StepVote> heard;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      World world(std::move(transports[static_cast<size_t>(rank)]), {.timeout = std::chrono::seconds(60)});
      Agreement agreement(world);
      agreement.exchange({.targets = 7, .signal = SIGHUP, .out_of_time = true});
      const std::vector<StepVote>& all = agreement.exchange(votes[static_cast<size_t>(rank)]);
      if (rank == listener) heard = all;
    });
  for (std::thread& thread : threads) thread.join();
  return heard;
}

TEST(Agreement, AllRanksHearEveryVote) {
  const std::vector<StepVote> votes{{.targets = kNoDouble, .out_of_time = true}, {.signal = SIGTERM}, {.targets = 2}};
  for (const int listener : {0, 1, 2}) EXPECT_EQ(heard_by(listener, 3, votes), votes) << listener;
  EXPECT_EQ(heard_by(0, 1, {votes[0]}), std::vector<StepVote>{votes[0]});
}

TEST(Agreement, TargetsAreSummedExactly) {
  EXPECT_EQ(total_targets({{.targets = kNoDouble}, {}, {.targets = 1}}), kNoDouble + 1);
  EXPECT_EQ(total_targets({{.targets = kNoDouble}}), kNoDouble);
}

}  // namespace
}  // namespace trireme

// The stand-in for NCCL finds each offence against NCCL's rules and names it. Calls are made as the program makes them, through
// NcclLibrary; ranks are threads.
#include "support/nccl_stand_in.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "comm/nccl_library.h"
#include "support/fake_device.h"

namespace trireme {
namespace {

constexpr auto kInvalidArgument = static_cast<NcclResult>(4), kInvalidUsage = static_cast<NcclResult>(5);

const NcclLibrary& nccl() { return NcclLibrary::load(); }

NcclUniqueId new_id() {
  NcclUniqueId id;
  EXPECT_EQ(nccl().unique_id(&id), NcclResult::success);
  return id;
}

// One rank of a communicator, with 64 numbers on a device of its own.
class Rank {
 public:
  Rank(int size, const NcclUniqueId& id, int rank, FakeDevice& device) : device_(device) {
    begun = nccl().begin_connecting(&communicator, size, id, rank);
    if (begun == NcclResult::in_progress) begun = settled(begun);
  }
  ~Rank() {
    if (communicator != nullptr) nccl().abort(communicator);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // Waits while the call is in progress.
  NcclResult settled(NcclResult result) const {
    while (result == NcclResult::in_progress) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      EXPECT_EQ(nccl().async_error(communicator, &result), NcclResult::success);
    }
    return result;
  }
  NcclResult sum(float* from, float* to, size_t count, Stream on = kCompute) const {
    return settled(nccl().all_reduce(from, to, count, NcclType::f32, NcclReduce::sum, communicator, stream(on)));
  }
  NcclResult sum(size_t count, Stream on = kCompute) { return sum(&values[0], &values[0], count, on); }
  NcclResult send(size_t count, int to, Stream on = kCompute) {
    return settled(nccl().send(&values[0], count, NcclType::f32, to, communicator, stream(on)));
  }
  NcclResult receive(size_t count, int from, Stream on = kCompute) {
    return settled(nccl().receive(&values[32], count, NcclType::f32, from, communicator, stream(on)));
  }
  NcclStream stream(Stream on) const { return device_.native(on); }

  // What ends the communicator while its streams stand still.
  std::string offence() const {
    NcclResult result = NcclResult::success;
    for (const Stopwatch watch; watch.seconds() < 60 && (result == NcclResult::success || result == NcclResult::in_progress);)
      nccl().async_error(communicator, &result);
    return nccl().result_text(result, communicator);
  }

  std::array<float, 64> values{};
  NcclCommunicator* communicator = nullptr;
  NcclResult begun = NcclResult::success;

 private:
  FakeDevice& device_;
};

using Act = std::function<void(Rank&, int rank)>;

void on_ranks(int ranks, const Act& act) {
  const NcclUniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      FakeDevice device(static_cast<uint64_t>(rank));
      Rank own(ranks, id, rank, device);
      ASSERT_EQ(own.begun, NcclResult::success);
      act(own, rank);
    });
  for (std::thread& thread : threads) thread.join();
}

// All ranks get the same line, whoever was the first to come.
void expect_offence(int ranks, const Act& act, const std::vector<std::string>& lines) {
  on_ranks(ranks, [&](Rank& own, int rank) {
    act(own, rank);
    const std::string text = own.offence();
    EXPECT_TRUE(std::ranges::any_of(lines, [&](const std::string& line) { return text == "invalid usage (" + line + ")"; }))
        << text;
  });
}

// A call that is refused at once, with its line.
void expect_refused(NcclResult result, NcclResult expected, const std::string& line) {
  EXPECT_EQ(result, expected);
  EXPECT_EQ(nccl().result_text(expected, nullptr),
            (expected == kInvalidUsage ? "invalid usage (" : "invalid argument (") + line + ")");
}

constexpr const char* kDeadlockEnd = "; calls that wait for each other belong in a group, or in the same order on all ranks";

TEST(NcclStandIn, CountsMustBeEqual) {
  expect_offence(2, [](Rank& own, int rank) { own.sum(rank == 0 ? 8 : 9); },
                 {"rank 0 calls all_reduce of 8 f32 (sum), where rank 1 calls all_reduce of 9 f32 (sum)",
                  "rank 1 calls all_reduce of 9 f32 (sum), where rank 0 calls all_reduce of 8 f32 (sum)"});
}

TEST(NcclStandIn, TypesAndReductionsMustBeEqual) {
  expect_offence(
      2,
      [](Rank& own, int rank) {
        own.settled(nccl().all_reduce(&own.values, &own.values, 4, rank == 0 ? NcclType::f32 : NcclType::i32,
                                      rank == 0 ? NcclReduce::sum : NcclReduce::max, own.communicator, own.stream(kCompute)));
      },
      {"rank 0 calls all_reduce of 4 f32 (sum), where rank 1 calls all_reduce of 4 i32 (max)",
       "rank 1 calls all_reduce of 4 i32 (max), where rank 0 calls all_reduce of 4 f32 (sum)"});
}

TEST(NcclStandIn, RootsMustBeEqual) {
  expect_offence(
      2,
      [](Rank& own, int rank) {
        own.settled(nccl().broadcast(&own.values, &own.values, 4, NcclType::f32, rank, own.communicator, own.stream(kCompute)));
      },
      {"rank 0 calls broadcast of 4 f32 from rank 0, where rank 1 calls broadcast of 4 f32 from rank 1",
       "rank 1 calls broadcast of 4 f32 from rank 1, where rank 0 calls broadcast of 4 f32 from rank 0"});
}

TEST(NcclStandIn, OrderMustBeEqual) {
  expect_offence(2,
                 [](Rank& own, int rank) {
                   const auto gather = [&] {
                     own.settled(nccl().all_gather(&own.values[0], &own.values[8], 4, NcclType::f32, own.communicator,
                                                   own.stream(kCompute)));
                   };
                   if (rank == 0) gather();
                   own.sum(&own.values[32], &own.values[32], 4);
                   if (rank == 1) gather();
                 },
                 {"rank 0 calls all_gather of 4 f32, where rank 1 calls all_reduce of 4 f32 (sum)",
                  "rank 1 calls all_reduce of 4 f32 (sum), where rank 0 calls all_gather of 4 f32"});
}

TEST(NcclStandIn, BothEndsOfAMessageMustAgree) {
  expect_offence(2, [](Rank& own, int rank) { rank == 0 ? own.send(8, 1) : own.receive(6, 0); },
                 {"rank 1 calls receive of 6 f32 from rank 0, and rank 0 calls send of 8 f32 to rank 1"});
}

// Small messages would pass on a real machine now and then, because they fit in a buffer.
TEST(NcclStandIn, SendsToEachOtherWithoutAGroupAreADeadlock) {
  expect_offence(
      2,
      [](Rank& own, int rank) {
        own.send(8, 1 - rank);
        own.receive(8, 1 - rank);
      },
      {std::string("a deadlock: rank 0 is in send of 8 f32 to rank 1, rank 1 is in send of 8 f32 to rank 0") + kDeadlockEnd,
       std::string("a deadlock: rank 1 is in send of 8 f32 to rank 0, rank 0 is in send of 8 f32 to rank 1") + kDeadlockEnd});
}

TEST(NcclStandIn, ARingOfReceivesIsADeadlock) {
  on_ranks(3, [](Rank& own, int rank) {
    own.receive(8, (rank + 2) % 3);
    own.send(8, (rank + 1) % 3);
    const std::string text = own.offence();
    EXPECT_TRUE(text.starts_with("invalid usage (a deadlock: rank ")) << text;
    for (const char* part : {"rank 0 is in receive of 8 f32 from rank 2", "rank 1 is in receive of 8 f32 from rank 0",
                             "rank 2 is in receive of 8 f32 from rank 1"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  });
}

// The streams of a rank do not help: a communicator does one call after the other.
TEST(NcclStandIn, AMessageBeforeACollectiveIsADeadlockWhereTheOrderDiffers) {
  expect_offence(
      2,
      [](Rank& own, int rank) {
        if (rank == 0) own.send(8, 1, kDataParallel);
        own.sum(4, kTensorParallel);
        if (rank == 1) own.receive(8, 0, kDataParallel);
      },
      {std::string("a deadlock: rank 0 is in send of 8 f32 to rank 1, rank 1 is in all_reduce of 4 f32 (sum)") + kDeadlockEnd,
       std::string("a deadlock: rank 1 is in all_reduce of 4 f32 (sum), rank 0 is in send of 8 f32 to rank 1") + kDeadlockEnd});
}

// What is no offence: the same calls in a group; and ranks that come late.
TEST(NcclStandIn, AGroupOfMessagesIsNoDeadlock) {
  on_ranks(3, [](Rank& own, int rank) {
    own.values[0] = static_cast<float>(rank);
    for (int round = 0; round < 20; ++round) {
      ASSERT_EQ(nccl().group_start(), NcclResult::success);
      for (const int other : {(rank + 1) % 3, (rank + 2) % 3}) {
        EXPECT_EQ(own.send(1, other), NcclResult::success);
        EXPECT_EQ(nccl().receive(&own.values[static_cast<size_t>(32 + other)], 1, NcclType::f32, other, own.communicator,
                                 own.stream(kCompute)),
                  NcclResult::success);
      }
      ASSERT_EQ(own.settled(nccl().group_end()), NcclResult::success);
      if (round % 7 == rank) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(own.sum(&own.values[8], &own.values[8], 1), NcclResult::success);
    NcclResult result = nccl().finalize(own.communicator);
    EXPECT_EQ(own.settled(result), NcclResult::success);
    for (const int other : {(rank + 1) % 3, (rank + 2) % 3})
      EXPECT_EQ(own.values[static_cast<size_t>(32 + other)], static_cast<float>(other));
    EXPECT_EQ(nccl().destroy(own.communicator), NcclResult::success);
    own.communicator = nullptr;
  });
}

TEST(NcclStandIn, CallsThatShareMemoryAtOneTimeAreFound) {
  const NcclUniqueId first = new_id(), second = new_id();
  std::vector<std::thread> threads;
  std::array<FakeDevice, 2> devices;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      FakeDevice& device = devices[static_cast<size_t>(rank)];
      Rank own(2, first, rank, device), other(2, second, rank, device);
      if (rank == 0) {  // neither ends, since rank 1 does not come
        own.sum(8, kTensorParallel);
        other.sum(&own.values[4], &own.values[4], 8, kDataParallel);
        NcclResult a = NcclResult::success, b = NcclResult::success;
        while (a == NcclResult::success && b == NcclResult::success)
          nccl().async_error(own.communicator, &a), nccl().async_error(other.communicator, &b);
        EXPECT_EQ(
            nccl().result_text(kInvalidUsage, nullptr),
            "invalid usage (all_reduce of 8 f32 (sum) uses memory that all_reduce of 8 f32 (sum) is using on another stream "
            "at the same time)");
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclStandIn, WrongArgumentsAreRefused) {
  on_ranks(1, [](Rank& own, int) {
    float* values = own.values.data();
    const auto gather = [&](float* from, float* to) {
      return nccl().all_gather(from, to, 8, NcclType::f32, own.communicator, own.stream(kCompute));
    };
    expect_refused(own.sum(values, values + 4, 8), kInvalidArgument,
                   "rank 0 of 1: all_reduce of 8 f32 (sum): its buffers overlap and are not in place");
    expect_refused(gather(values + 4, values), kInvalidArgument,
                   "rank 0 of 1: all_gather of 8 f32: its buffers overlap and are not in place");
    expect_refused(own.sum(nullptr, nullptr, 8), kInvalidArgument, "rank 0 of 1: all_reduce of 8 f32 (sum): its buffer is null");
    expect_refused(own.send(8, 1), kInvalidArgument, "rank 0 of 1: send of 8 f32 to rank 1: there are 1 ranks");
    expect_refused(own.send(8, 0), kInvalidArgument,
                   "rank 0 of 1: send of 8 f32 to rank 0, which is itself, outside a group: it would wait for ever");
    expect_refused(nccl().broadcast(values, values, 8, NcclType::f32, -1, own.communicator, own.stream(kCompute)),
                   kInvalidArgument, "rank 0 of 1: broadcast of 8 f32 from rank -1: there are 1 ranks");
    expect_refused(nccl().all_reduce(values, values, 8, NcclType::u8, NcclReduce::sum, own.communicator, own.stream(kCompute)),
                   kInvalidArgument, "rank 0 of 1: all_reduce: the stand-in does not reduce u8");
    expect_refused(
        nccl().all_reduce(values, values, 8, static_cast<NcclType>(99), NcclReduce::sum, own.communicator, own.stream(kCompute)),
        kInvalidArgument, "rank 0 of 1: all_reduce: no data type 99");
    expect_refused(nccl().all_reduce(values, values, 8, NcclType::f32, NcclReduce::sum, own.communicator, nullptr),
                   kInvalidArgument, "all_reduce of 8 f32 (sum) on the default stream");
    expect_refused(nccl().all_reduce(values, values, 8, NcclType::f32, NcclReduce::sum, nullptr, own.stream(kCompute)),
                   kInvalidArgument, "no communicator, or one that was destroyed or aborted");
  });
}

TEST(NcclStandIn, BuffersOfAGroupMustNotOverlap) {
  on_ranks(1, [](Rank& own, int) {
    const auto end = [&](float* from, float* to) {
      EXPECT_EQ(nccl().group_start(), NcclResult::success);
      EXPECT_EQ(nccl().send(from, 8, NcclType::f32, 0, own.communicator, own.stream(kCompute)), NcclResult::success);
      EXPECT_EQ(nccl().receive(to, 8, NcclType::f32, 0, own.communicator, own.stream(kCompute)), NcclResult::success);
      return nccl().group_end();
    };
    expect_refused(end(&own.values[0], &own.values[4]), kInvalidArgument,
                   "rank 0 of 1: receive of 8 f32 from rank 0 overlaps send of 8 f32 to rank 0 of the same group");
    EXPECT_EQ(own.settled(end(&own.values[0], &own.values[8])), NcclResult::success);
  });
}

TEST(NcclStandIn, GroupsMustBeStartedAndAreOfOneCommunicator) {
  expect_refused(nccl().group_end(), kInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  on_ranks(1, [](Rank& own, int) {
    EXPECT_EQ(nccl().group_start(), NcclResult::success);
    EXPECT_EQ(own.sum(4), NcclResult::success);
    EXPECT_EQ(own.send(4, 0, kDataParallel), kInvalidUsage);
    expect_refused(nccl().group_end(), kInvalidUsage, "the stand-in has no groups over several communicators or streams");
  });
}

// A communicator that does not block is not to be used before its last call is done.
TEST(NcclStandIn, ACallInProgressMustBeWaitedFor) {
  constexpr const char* kLine =
      "rank 0 of 1: used before the call before it was done: ask ncclCommGetAsyncError until it says success";
  FakeDevice device;
  NcclCommunicator* made = nullptr;
  std::array<float, 4> values{};
  const auto sum = [&] {
    return nccl().all_reduce(&values, &values, 4, NcclType::f32, NcclReduce::sum, made, device.native(kCompute));
  };
  ASSERT_EQ(nccl().begin_connecting(&made, 1, new_id(), 0), NcclResult::in_progress);
  expect_refused(sum(), kInvalidArgument, kLine);
  NcclResult state = NcclResult::in_progress;
  while (state == NcclResult::in_progress) nccl().async_error(made, &state);
  EXPECT_EQ(sum(), NcclResult::in_progress);
  expect_refused(sum(), kInvalidArgument, kLine);
  nccl().abort(made);
  expect_refused(sum(), kInvalidArgument, "no communicator, or one that was destroyed or aborted");
}

TEST(NcclStandIn, ACommunicatorIsFinalizedBeforeItIsDestroyed) {
  on_ranks(1, [](Rank& own, int) {
    expect_refused(nccl().destroy(own.communicator), kInvalidUsage, "rank 0 of 1: destroyed before ncclCommFinalize was done");
    EXPECT_EQ(own.settled(nccl().finalize(own.communicator)), NcclResult::success);
    expect_refused(own.sum(4), kInvalidArgument, "rank 0 of 1: used after ncclCommFinalize");
  });
}

TEST(NcclStandIn, RanksMustAgreeOnWhoTheyAre) {
  FakeDevice device;
  const NcclUniqueId twice = new_id(), sizes = new_id();
  NcclCommunicator *first = nullptr, *second = nullptr;
  NcclResult state = NcclResult::in_progress;
  const auto expect_failed = [&](const std::string& line) {
    EXPECT_EQ(nccl().async_error(first, &state), NcclResult::success);
    expect_refused(state, kInvalidUsage, line);
    nccl().abort(first);
    nccl().abort(second);
  };
  nccl().begin_connecting(&first, 2, twice, 1);
  nccl().begin_connecting(&second, 2, twice, 1);
  expect_failed("two say that they are rank 1");
  nccl().begin_connecting(&first, 2, sizes, 0);
  nccl().begin_connecting(&second, 3, sizes, 2);
  expect_failed("rank 2 says there are 3 ranks, and rank 0 says 2");
}

// A rank that leaves is not noticed, as over NVLink or shared memory, unless the stand-in is told to be a network.
TEST(NcclStandIn, ADeadProcessIsARemoteErrorOverANetwork) {
  for (const bool is_network : {false, true}) {
    is_network ? ::setenv("NCCL_STAND_IN_REMOTE_ERRORS", "1", 1) : ::unsetenv("NCCL_STAND_IN_REMOTE_ERRORS");
    const NcclUniqueId id = new_id();
    const pid_t other = ::fork();
    if (other == 0) {
      NcclCommunicator* made = nullptr;
      nccl().begin_connecting(&made, 2, id, 1);
      NcclResult state = NcclResult::in_progress;
      while (state == NcclResult::in_progress) nccl().async_error(made, &state);
      ::_exit(0);
    }
    FakeDevice device;
    Rank own(2, id, 0, device);
    int status = 0;
    ::waitpid(other, &status, 0);
    EXPECT_EQ(own.sum(8), NcclResult::success);
    NcclResult state = NcclResult::success;
    const Stopwatch watch;
    while (state == NcclResult::success && watch.seconds() < (is_network ? 60 : 0.2))
      nccl().async_error(own.communicator, &state);
    EXPECT_EQ(static_cast<int>(state), is_network ? 6 : 0);
  }
  ::unsetenv("NCCL_STAND_IN_REMOTE_ERRORS");
}

// What its maker has closed, or never was.
TEST(NcclStandIn, AnIdOfNobodyIsRefused) {
  NcclCommunicator* made = nullptr;
  EXPECT_EQ(static_cast<int>(nccl().begin_connecting(&made, 1, NcclUniqueId{}, 0)), 2);
  EXPECT_EQ(made, nullptr);
}

}  // namespace
}  // namespace trireme

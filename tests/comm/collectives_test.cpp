#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "comm/host_group.h"
#include "support/rank_threads.h"

namespace trireme {
namespace {

Tensor view(std::vector<float>& values) {
  return {values.data(), DType::f32, Shape{static_cast<int64_t>(values.size())}, Device::host};
}
Tensor view(std::vector<bf16>& values) {
  return {values.data(), DType::bf16, Shape{static_cast<int64_t>(values.size())}, Device::host};
}

Event now(Progress& progress, Stream stream) { return {"test", stream, progress.enqueued(stream)}; }

template <class Work>
void on_ranks(int ranks, Work work) {
  on_rank_threads(ranks, [&](int, const std::vector<int>& members, Transport& transport, Progress& progress) {
    HostGroup group(GroupKind::tp, members, transport, progress);
    work(group, progress);
    group.barrier(kCompute);
    progress.synchronize(now(progress, kCompute));
  });
}

float value(int rank, int64_t i) { return static_cast<float>((rank + 1) * 1000 + i); }

std::vector<float> values_of(int rank, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(value(rank, i));
  return values;
}

float sum_over_ranks(int ranks, int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
  return sum;
}

class Collectives : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 5));

TEST_P(Collectives, AllReduceOfAnyLength) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](Communicator& group, Progress& progress) {
    for (const int64_t count : {1, 2, 7, 1000}) {
      std::vector<float> sums = values_of(group.rank(), count), largest = sums;
      group.all_reduce(kTensorParallel, view(sums), Reduce::sum);
      group.all_reduce(kTensorParallel, view(largest), Reduce::max);
      progress.synchronize(now(progress, kTensorParallel));
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(sums[static_cast<size_t>(i)], sum_over_ranks(ranks, i));
        ASSERT_EQ(largest[static_cast<size_t>(i)], value(ranks - 1, i));
      }
    }
  });
}

TEST_P(Collectives, ReduceScatterAndAllGatherAreInverseInShape) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](Communicator& group, Progress& progress) {
    constexpr int64_t kPiece = 13;
    std::vector<float> all = values_of(group.rank(), kPiece * ranks);
    const Tensor whole = view(all), own = whole.rows(group.rank() * kPiece, kPiece);
    group.reduce_scatter(kDataParallel, whole, own, Reduce::sum);
    group.all_gather(kDataParallel, own, whole);
    progress.synchronize(now(progress, kDataParallel));
    for (int64_t i = 0; i < kPiece * ranks; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], sum_over_ranks(ranks, i));
  });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  on_ranks(GetParam(), [&](Communicator& group, Progress& progress) {
    for (int root = 0; root < group.size(); ++root) {
      std::vector<float> values = values_of(group.rank(), 5);
      group.broadcast(kCopy, view(values), root);
      progress.synchronize(now(progress, kCopy));
      EXPECT_EQ(values, values_of(root, 5));
    }
  });
}

// 256 ones and then small values: in bf16 every partial sum would lose them, in f32 none does.
TEST(CollectivesBf16, AccumulateInF32) {
  constexpr int kRanks = 5;
  on_ranks(kRanks, [&](Communicator& group, Progress& progress) {
    std::vector<bf16> values(3, to_bf16(group.rank() == 0 ? 256.0f : 0.5f));
    group.all_reduce(kTensorParallel, view(values), Reduce::sum);
    progress.synchronize(now(progress, kTensorParallel));
    for (const bf16 sum : values) EXPECT_EQ(to_float(sum), 258.0f);
  });
}

TEST(CollectivesStreams, MessagesOnTwoStreamsDoNotMeet) {
  on_ranks(2, [&](Communicator& group, Progress& progress) {
    const int other = 1 - group.rank();
    const Stream there = group.rank() == 0 ? kSendForward : kReceiveForward, back = there.peer_end();
    std::vector<std::vector<float>> sent, received(20, std::vector<float>(64));
    for (int i = 0; i < 20; ++i) sent.push_back(values_of(group.rank(), 64 + 0 * i));
    for (int i = 0; i < 20; ++i) sent[static_cast<size_t>(i)][0] = static_cast<float>(i);
    for (auto& message : sent) group.send(there, view(message), other);
    for (auto& message : received) group.receive(back, view(message), other);
    progress.synchronize(now(progress, back));
    progress.synchronize(now(progress, there));
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(received[static_cast<size_t>(i)][0], static_cast<float>(i));
      EXPECT_EQ(received[static_cast<size_t>(i)][1], value(other, 1));
    }
  });
}

TEST(CollectivesStreams, AStreamWaitsForAnother) {
  on_ranks(2, [&](Communicator& group, Progress& progress) {
    std::vector<float> values = values_of(group.rank(), 1000);
    group.all_reduce(kTensorParallel, view(values), Reduce::sum);
    progress.wait(kDataParallel, now(progress, kTensorParallel));
    group.all_reduce(kDataParallel, view(values), Reduce::sum);  // of the sums: each rank adds the same
    progress.synchronize(now(progress, kDataParallel));
    for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], 2 * sum_over_ranks(2, i));
  });
}

TEST(CollectivesTimeout, NamesWhatIsUnderWay) {
  auto transports = LocalTransport::connect(2);
  Progress progress({.timeout = std::chrono::seconds(1)});
  HostGroup group(GroupKind::dp, {0, 1}, *transports[0], progress);
  std::vector<float> values(4);
  group.all_reduce(kDataParallel, view(values), Reduce::sum);  // nobody else comes
  try {
    progress.synchronize({"gradients_reduced", kDataParallel, progress.enqueued(kDataParallel)});
    FAIL() << "nobody waited";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "waited 1 s for \"gradients_reduced\"; under way: all_reduce of [4] f32 in group dp (ranks 0, 1)");
  }
}

}  // namespace
}  // namespace trireme

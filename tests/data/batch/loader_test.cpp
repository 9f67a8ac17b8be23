#include "data/batch/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "data/expect_user_error.h"
#include "support/allocation_counter.h"
#include "support/few_threads.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

// Token t of sample i is 100 * i + t, its target the next; every third target is masked in odd samples.
class NumberedDataset final : public Dataset {
 public:
  explicit NumberedDataset(int64_t samples, int64_t sequence = 4) : samples_(samples), sequence_(sequence) {}
  int64_t size() const override { return samples_; }
  int64_t sequence() const override { return sequence_; }
  int64_t vocabulary() const override { return 1 << 30; }
  std::function<void(int64_t)> before_sample;
  mutable std::atomic<int64_t> samples_read{0};

 private:
  void read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    if (before_sample) before_sample(index);
    ++samples_read;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int64_t t = first + static_cast<int64_t>(i);
      tokens[i] = static_cast<int32_t>(100 * index + t);
      targets[i] = index % 2 == 1 && t % 3 == 0 ? kMaskedTarget : tokens[i] + 1;
    }
  }

  int64_t samples_;
  int64_t sequence_;
};

using Int32s = std::vector<int32_t>;

TEST(Batch, RowsPositionsKeysAndTheNumberOfTargets) {
  const NumberedDataset dataset(10);
  Batch batch(2, 4);
  fill_batch(dataset, 6, batch);
  EXPECT_EQ(batch.first_sample, 6);
  EXPECT_EQ(batch.tokens, (Int32s{600, 601, 602, 603, 700, 701, 702, 703}));
  EXPECT_EQ(batch.targets, (Int32s{601, 602, 603, 604, -1, 702, 703, -1}));
  EXPECT_EQ(batch.positions, (Int32s{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(batch.row_keys, (std::vector<int64_t>{24, 25, 26, 27, 28, 29, 30, 31}));
  EXPECT_EQ(batch.unmasked_targets, 6);
  fill_batch(dataset, 0, batch);
  EXPECT_EQ(batch.row_keys, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(batch.positions, (Int32s{0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST(Batch, RowsOfARankThatSharesSequences) {
  const NumberedDataset dataset(10, 8);
  Batch batch(2, 8, {.rank = 0, .ranks = 2});
  fill_batch(dataset, 6, batch);
  EXPECT_EQ(batch.tokens, (Int32s{600, 601, 700, 701, 606, 607, 706, 707}));
  EXPECT_EQ(batch.targets, (Int32s{601, 602, -1, 702, 607, 608, -1, 708}));
  EXPECT_EQ(batch.positions, (Int32s{0, 1, 0, 1, 6, 7, 6, 7}));
  EXPECT_EQ(batch.row_keys, (std::vector<int64_t>{48, 49, 56, 57, 54, 55, 62, 63}));
  EXPECT_EQ(batch.unmasked_targets, 6);
}

TEST(Batch, HostileSizes) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  expect_user_error([] { Batch(kMost, 2); }, {"model.micro_batch_size * model.encoder_seq_length"});
  EXPECT_THROW(Batch(1, int64_t{1} << 31), std::logic_error);
  EXPECT_THROW(Batch(0, 4), std::logic_error);
  EXPECT_THROW(Batch(1, 4, {.rank = 2, .ranks = 2}), std::logic_error);
  EXPECT_THROW(fill_batch(NumberedDataset(10, 6), 0, *std::make_unique<Batch>(1, 6, SequenceCut{0, 2})), std::logic_error);
  Batch batch(2, 4);
  expect_user_error([&] { fill_batch(NumberedDataset(kMost), kMost / 2, batch); }, {"samples * model.encoder_seq_length"});
  EXPECT_THROW(fill_batch(NumberedDataset(10), 9, batch), std::logic_error);
  EXPECT_THROW(fill_batch(NumberedDataset(10, 5), 0, batch), std::logic_error);
}

TEST(Loader, YieldsTheRanksMicroBatchesInOrder) {
  const NumberedDataset dataset(1000);
  const SamplerLayout layout{.micro_batch = 2, .rank = 1, .size = 3};
  Loader loader(dataset, layout, 12, 3);
  ASSERT_EQ(loader.remaining(), (1000 - 12) / 6);
  Batch expected(2, 4);
  for (int64_t number = 0; loader.remaining() > 0; ++number) {
    const Batch& batch = loader.next();
    fill_batch(dataset, 12 + 6 * number + 2, expected);
    ASSERT_EQ(batch.first_sample, expected.first_sample);
    ASSERT_EQ(batch.tokens, expected.tokens);
    ASSERT_EQ(batch.targets, expected.targets);
    ASSERT_EQ(batch.row_keys, expected.row_keys);
    ASSERT_EQ(batch.unmasked_targets, expected.unmasked_targets);
  }
  EXPECT_THROW(loader.next(), std::logic_error);
}

TEST(Loader, WorksAheadAsFarAsTheRingAndLeavesTheCallersBatchAlone) {
  const NumberedDataset dataset(100);
  Loader loader(dataset, {}, 0, 3);
  const Batch& batch = loader.next();
  while (dataset.samples_read < 3) std::this_thread::yield();  // the caller's batch and two ahead
  // Time in which a loader that goes too far would do so.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset.samples_read, 3);
  EXPECT_EQ(batch.tokens, (Int32s{0, 1, 2, 3}));
  EXPECT_EQ(loader.next().tokens, (Int32s{100, 101, 102, 103}));
}

TEST(Loader, ThreadsThatCannotBeHadAreALine) {
  EXPECT_TRUE(passes_with_few_threads([] {
    const NumberedDataset dataset(10);
    const std::string line = message_of<Failure>([&] { Loader loader(dataset, {.micro_batch = 1}, 0, 1000, 999); });
    EXPECT_TRUE(contains(line, "the system gives no more threads (")) << line;
  }));
}

TEST(Loader, AnErrorArrivesWithTheBatchThatHasIt) {
  NumberedDataset dataset(100);
  dataset.before_sample = [](int64_t index) {
    if (index == 5) throw Failure("sample {} is damaged", index);
  };
  Loader loader(dataset, {}, 0, 4);
  for (int32_t i = 0; i < 5; ++i) EXPECT_EQ(loader.next().tokens[0], 100 * i);
  EXPECT_THROW(loader.next(), Failure);
  EXPECT_THROW(loader.next(), Failure);
}

TEST(Loader, SeveralThreadsGiveTheSameBatches) {
  NumberedDataset dataset(300);
  dataset.before_sample = [](int64_t index) {  // the earlier of two neighbours takes longer
    if (index % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (index == 250) throw Failure("sample {} is damaged", index);
  };
  Loader loader(dataset, {}, 0, 6, 4);
  for (int32_t i = 0; i < 250; ++i) {
    ASSERT_EQ(loader.next().tokens[0], 100 * i);
    if (i % 10 == 0) {
      ASSERT_GT(loader.upcoming_targets(3), 0);
    }
    if (i == 246) break;
  }
  EXPECT_THROW(loader.upcoming_targets(4), Failure);
}

TEST(Loader, CountsWhatTheCallerWaitedFor) {
  NumberedDataset dataset(100);
  std::atomic<bool> slow{false};
  dataset.before_sample = [&](int64_t) {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  Loader loader(dataset, {}, 0, 4);
  while (dataset.samples_read < 4) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the fourth batch is complete by now
  loader.next();
  EXPECT_EQ(loader.waited().count, 0);
  EXPECT_EQ(loader.waited().seconds, 0);
  slow = true;
  for (int i = 0; i < 10; ++i) loader.next();
  EXPECT_GE(loader.waited().count, 1);
  EXPECT_GT(loader.waited().seconds, 0);
}

TEST(Loader, StopsAtAnyMoment) {
  const NumberedDataset dataset(1 << 20);
  for (int64_t round = 0; round < 200; ++round) {
    dataset.samples_read = 0;
    const int64_t taken = round % 7;
    {
      Loader loader(dataset, {}, 0, 2);
      for (int64_t i = 0; i < taken; ++i) loader.next();
    }
    EXPECT_GE(dataset.samples_read, taken);
    EXPECT_LE(dataset.samples_read, std::max<int64_t>(taken, 1) + 1);
  }
}

TEST(Loader, ADatasetThatIsUsedUpGivesNothing) {
  const NumberedDataset dataset(10);
  Loader loader(dataset, {.micro_batch = 4, .rank = 0, .size = 1}, 8);
  EXPECT_EQ(loader.remaining(), 0);
  EXPECT_THROW(loader.next(), std::logic_error);
}

TEST(Loader, ASteadyStateAllocatesNothing) {
  const NumberedDataset dataset(5000);
  Loader loader(dataset, {.micro_batch = 2, .rank = 0, .size = 1}, 0);
  loader.next();
  const int64_t before = allocation_count;
  for (int i = 0; i < 2000; ++i) loader.next();
  EXPECT_EQ(allocation_count, before);
}

}  // namespace
}  // namespace trireme

#include "data/batch/sampler.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "data/expect_user_error.h"

namespace trireme {
namespace {

TEST(Sampler, RanksTakeTheirMicroBatchOfEachBlock) {
  // Blocks of 3 ranks * 2 samples from sample 12 on: rank 1 takes 14 15, then 20 21.
  const SamplerLayout rank1{.micro_batch = 2, .rank = 1, .size = 3};
  EXPECT_EQ(first_sample(rank1, 12, 0), 14);
  EXPECT_EQ(first_sample(rank1, 12, 1), 20);
  EXPECT_EQ(first_sample({.micro_batch = 2, .rank = 0, .size = 3}, 12, 1), 18);
}

TEST(Sampler, EveryLayoutTakesTheSameSamplesOfAGlobalBatch) {
  constexpr int64_t kConsumed = 36, kGlobalBatch = 12;
  for (const int64_t size : {1, 2, 3, 6})
    for (const int64_t micro_batch : {1, 2}) {
      std::multiset<int64_t> samples;
      for (int64_t rank = 0; rank < size; ++rank)
        for (int64_t number = 0; number < kGlobalBatch / (size * micro_batch); ++number)
          for (int64_t b = 0; b < micro_batch; ++b)
            samples.insert(first_sample({micro_batch, rank, size}, kConsumed, number) + b);
      std::multiset<int64_t> expected;
      for (int64_t i = 0; i < kGlobalBatch; ++i) expected.insert(kConsumed + i);
      EXPECT_EQ(samples, expected) << size << " ranks, micro-batch " << micro_batch;
    }
}

TEST(Sampler, GoingOnFromAPositionIsTheSameAsNotStopping) {
  const SamplerLayout layout{.micro_batch = 4, .rank = 1, .size = 2};
  for (int64_t number = 0; number < 5; ++number)
    EXPECT_EQ(first_sample(layout, 3 * 8, number), first_sample(layout, 0, 3 + number));
}

TEST(Sampler, ABlockThatIsNotWholeIsLeftOut) {
  const SamplerLayout layout{.micro_batch = 2, .rank = 2, .size = 3};
  EXPECT_EQ(micro_batches_left(layout, 0, 18), 3);
  EXPECT_EQ(micro_batches_left(layout, 0, 17), 2);
  EXPECT_EQ(micro_batches_left(layout, 13, 18), 0);
  EXPECT_EQ(micro_batches_left(layout, 100, 18), 0);
}

TEST(Sampler, PositionsPast64BitsAreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  expect_user_error([] { first_sample({.micro_batch = 4, .rank = 0, .size = 1}, 0, kHuge); }, {"does not fit in 64 bits"});
  expect_user_error([] { first_sample({.micro_batch = 1, .rank = 0, .size = 1}, kHuge, kHuge); }, {"does not fit in 64 bits"});
  expect_user_error([] { micro_batches_left({.micro_batch = kHuge, .rank = 0, .size = 4}, 0, 1); }, {"model.micro_batch_size"});
}

TEST(Sampler, ARankOutsideItsGroupIsABug) {
  EXPECT_THROW(first_sample({.micro_batch = 1, .rank = 2, .size = 2}, 0, 0), std::logic_error);
  EXPECT_THROW(first_sample({.micro_batch = 1, .rank = 0, .size = 1}, -1, 0), std::logic_error);
}

}  // namespace
}  // namespace trireme

// The random numbers: known answers, their distribution, and that the vector form of dropout draws the same bits.
#include "base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#define TRIREME_ISA test_of_philox
#include "backend/cpu/kernels/philox_simd.h"

namespace trireme {
namespace {

// The known answers published with the generator (Random123, philox4x32 with 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox(~uint64_t{0}, {kOnes, kOnes, kOnes, kOnes}), (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformNeverReachesItsEnds) {
  EXPECT_GT(uniform_open(0), 0);
  EXPECT_LT(uniform_open(0xffffffff), 1);
}

// The bounds are five standard deviations of each estimate from 400,000 draws: 5 / sqrt(n) for the mean, 5 sqrt(2 / n) for the
// variance, 5 sqrt(96 / n) for the fourth moment.
TEST(Philox, NormalsHaveTheirMoments) {
  constexpr uint32_t kBlocks = 100000;
  double mean = 0, variance = 0, fourth = 0;
  for (uint32_t block = 0; block < kBlocks; ++block)
    for (const double z : normals(philox(42, {block, 0, 0, 0}))) {
      mean += z;
      variance += z * z;
      fourth += z * z * z * z;
    }
  const double n = 4.0 * kBlocks;
  EXPECT_NEAR(mean / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(variance / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
}

TEST(Dropout, ThresholdDropsItsShare) {
  constexpr int64_t kElements = 200000;
  for (const float probability : {0.1f, 0.5f}) {
    int64_t dropped = 0;
    for (int64_t i = 0; i < kElements; ++i)
      if (dropout_block(7, 1, 3, i)[static_cast<size_t>(i % 4)] < dropout_threshold(probability)) ++dropped;
    const double p = static_cast<double>(probability);
    EXPECT_NEAR(static_cast<double>(dropped), p * kElements, 5 * std::sqrt(p * (1 - p) * kElements));  // five standard deviations
  }
}

// Every part of what is dropped has its own draw.
TEST(Dropout, BlocksDiffer) {
  std::set<PhiloxBlock> blocks;
  for (const uint64_t seed : {1, 2})
    for (const uint32_t site : {0, 1})
      for (const int64_t row_key : {int64_t{0}, int64_t{1}, int64_t{1} << 32})
        for (const int64_t index : {0, 4, 8}) blocks.insert(dropout_block(seed, site, row_key, index));
  EXPECT_EQ(blocks.size(), 2u * 2 * 3 * 3);
  EXPECT_EQ(dropout_block(1, 2, 3, 4), dropout_block(1, 2, 3, 7)) << "four neighbours share a block";
}

TEST(Dropout, VectorsDrawTheSameBits) {
  namespace simd = cpu::test_of_philox;
  const float probability = 0.3f, scale = 1 / (1 - probability);
  const uint32_t threshold = dropout_threshold(probability);
  for (const uint64_t seed : {uint64_t{0}, uint64_t{0xfedcba9876543210}})
    for (const int64_t row_key : {int64_t{5}, (int64_t{1} << 40) + 9})
      for (const int64_t first : {0, 4, 64, 4096}) {
        const simd::DropoutFactors factors = simd::dropout_factors({seed, 77, row_key, threshold, scale}, first);
        for (int64_t i = 0; i < simd::kDropoutBatch; ++i) {
          const bool keep = dropout_block(seed, 77, row_key, first + i)[static_cast<size_t>((first + i) % 4)] >= threshold;
          EXPECT_EQ(factors.of[i / 16][i % 16], keep ? scale : 0) << "index " << first + i;
        }
      }
}

}  // namespace
}  // namespace trireme

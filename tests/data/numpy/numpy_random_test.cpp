// Every expected number here was printed by numpy.
#include "data/numpy/numpy_random.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

namespace trireme {
namespace {

template <class T>
std::vector<T> shuffled(NumpyRandomState& random, size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{0});
  random.shuffle(std::span<T>(values));
  return values;
}

std::vector<int64_t> draws(NumpyGenerator& random, int64_t low, int64_t high, int count) {
  std::vector<int64_t> values;
  for (int i = 0; i < count; ++i) values.push_back(random.integers(low, high));
  return values;
}

using Int64s = std::vector<int64_t>;

TEST(NumpyRandomState, ShuffleOfTen) {
  NumpyRandomState seed0(0), seed42(42), seed1234(1234);
  EXPECT_EQ(shuffled<int64_t>(seed0, 10), (Int64s{2, 8, 4, 9, 1, 6, 7, 3, 0, 5}));
  EXPECT_EQ(shuffled<int64_t>(seed42, 10), (Int64s{8, 1, 5, 0, 7, 2, 9, 4, 3, 6}));
  EXPECT_EQ(shuffled<int64_t>(seed1234, 10), (Int64s{7, 2, 9, 1, 0, 8, 4, 5, 6, 3}));
}

// The weighted sum pins the whole permutation; the second shuffle shows that exactly the right number of draws were made.
TEST(NumpyRandomState, ShuffleOfAThousandAndThenOfSeven) {
  struct Golden {
    uint32_t seed;
    int64_t first, weighted_sum;
    Int64s seven;
  };
  for (const Golden& golden :
       {Golden{0, 993, 247872640, {2, 1, 5, 6, 4, 3, 0}}, Golden{1234, 681, 251398022, {4, 0, 1, 5, 6, 3, 2}},
        Golden{4294967295, 94, 249935792, {1, 0, 2, 3, 4, 6, 5}}}) {
    NumpyRandomState random(golden.seed);
    const std::vector<int32_t> thousand = shuffled<int32_t>(random, 1000);
    int64_t weighted_sum = 0;
    for (size_t i = 0; i < thousand.size(); ++i) weighted_sum += static_cast<int64_t>(i) * thousand[i];
    EXPECT_EQ(thousand[0], golden.first);
    EXPECT_EQ(weighted_sum, golden.weighted_sum);
    EXPECT_EQ(shuffled<int64_t>(random, 7), golden.seven);
  }
}

TEST(NumpyRandomState, ShuffleOfNothingAndOfOneDrawsNothing) {
  NumpyRandomState random(1234);
  EXPECT_TRUE(shuffled<int64_t>(random, 0).empty());
  EXPECT_EQ(shuffled<int64_t>(random, 1), Int64s{0});
  EXPECT_EQ(shuffled<int64_t>(random, 10), (Int64s{7, 2, 9, 1, 0, 8, 4, 5, 6, 3}));
}

TEST(NumpyRandomState, IntervalsAbove32BitsDrawTheUpperWordFirst) {
  NumpyRandomState random(1234);
  for (const uint64_t expected : {878802328948, 656147994617, 617876871857, 662277595166})
    EXPECT_EQ(random.interval(uint64_t{1} << 40), expected);
}

TEST(NumpyGenerator, DocumentLengthsOfTheMockData) {
  NumpyGenerator random(0);
  const Int64s lengths = draws(random, 1, 4096, 100000);
  EXPECT_EQ(Int64s(lengths.begin(), lengths.begin() + 12),
            (Int64s{3484, 2609, 2094, 1105, 1261, 168, 309, 68, 718, 3331, 2660, 3738}));
  EXPECT_EQ(Int64s(lengths.end() - 4, lengths.end()), (Int64s{2592, 61, 100, 769}));
  EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), 204637097);
}

// One stream with every kind of range: 32-bit draws, 64-bit draws in between (the kept half survives them), a range of 2^32, one
// of a single value, and two wide enough that a quarter of the draws are rejected.
TEST(NumpyGenerator, RangesOfEveryWidth) {
  NumpyGenerator random((uint64_t{1} << 40) + 5);
  EXPECT_EQ(draws(random, -5, 7, 10), (Int64s{-5, -5, 0, -1, 5, 2, 5, -4, -5, 0}));
  EXPECT_EQ(draws(random, -(int64_t{1} << 40), int64_t{1} << 41, 4),
            (Int64s{2152567426986, 91902673718, -933866414738, 1303474031463}));
  for (const int64_t expected : {-5976453183356298406, -1534148481609871564, -8657708032845262879})
    EXPECT_EQ(static_cast<int64_t>(random.next64() + (uint64_t{1} << 63)), expected);
  EXPECT_EQ(draws(random, 0, int64_t{1} << 32, 4), (Int64s{183109532, 903079924, 1291414723, 739971806}));
  EXPECT_EQ(draws(random, -(int64_t{1} << 31), int64_t{1} << 31, 3), (Int64s{-578188566, -144305094, 311835596}));
  EXPECT_EQ(draws(random, 3, 4, 3), (Int64s{3, 3, 3}));
  EXPECT_EQ(draws(random, 0, 3 * (int64_t{1} << 30), 6),
            (Int64s{2364598254, 888122033, 1825853675, 2640698403, 1833817464, 2986738412}));
  EXPECT_EQ(draws(random, 0, 3 * (int64_t{1} << 61), 6), (Int64s{1213302808784383698, 3971435925881753381, 4467474006972139900,
                                                                 2162609323456002238, 4793107620000660159, 5427769170091711197}));
}

TEST(NumpyGenerator, AKeptHalfSurvivesA64BitDraw) {
  NumpyGenerator random(7);
  EXPECT_EQ(random.integers(0, 1000), 944);
  EXPECT_EQ(random.integers(0, int64_t{1} << 40), 986497006767);
  EXPECT_EQ(random.integers(0, 1000), 625);
  EXPECT_EQ(random.integers(0, 1000), 578);
}

TEST(NumpyGenerator, SeedsOf64Bits) {
  NumpyGenerator random(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(draws(random, 0, 1000, 6), (Int64s{547, 680, 950, 845, 358, 7}));
}

TEST(NumpyGenerator, AnEmptyRangeIsABug) {
  NumpyGenerator random(0);
  EXPECT_THROW(random.integers(3, 3), std::logic_error);
}

}  // namespace
}  // namespace trireme

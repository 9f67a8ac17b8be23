// Python's own results: random.Random(seed).sample(range(population), count), one after the other.
#include "evaluate/python_random.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Indices = std::vector<int64_t>;

TEST(PythonRandom, DrawsWhatPythonDraws) {
  PythonRandom random(1234);
  EXPECT_EQ(random.sample(10, 3), (Indices{7, 1, 0}));
  EXPECT_EQ(random.sample(10, 3), (Indices{1, 0, 9})) << "the state goes on";
  EXPECT_EQ(random.sample(100, 4), (Indices{12, 98, 45, 30})) << "few of many";
  EXPECT_EQ(random.sample(21, 8), (Indices{0, 20, 19, 11, 15, 14, 2, 1})) << "many of few";
  EXPECT_EQ(random.sample(1'000'000, 2), (Indices{191984, 748064}));
}

TEST(PythonRandom, SeedsOfTwoWordsAndZero) {
  EXPECT_EQ(PythonRandom((uint64_t{1} << 40) + 5).sample(1000, 6), (Indices{516, 529, 275, 679, 948, 28}));
  EXPECT_EQ(PythonRandom(0).sample(5, 5), (Indices{3, 4, 0, 1, 2}));
}

}  // namespace
}  // namespace trireme

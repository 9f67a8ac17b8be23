// Which of many equal parts is slower than the others.
#include "validate/fleet.h"

#include <gtest/gtest.h>

#include <random>

namespace trireme {
namespace {

TEST(Fleet, NamesTheOneAtHalfSpeed) {
  EXPECT_EQ(slow_parts({100, 101, 50, 99}, kHostTolerance), (std::vector<size_t>{2}));
  EXPECT_EQ(slow_parts({100, 50}, kHostTolerance), (std::vector<size_t>{1}));
  EXPECT_EQ(slow_parts({100, 130, 80, 55, 120, 90, 110, 70}, kHostTolerance), (std::vector<size_t>{3}))
      << "a noisy fleet must not hide it";
}

TEST(Fleet, NamesAGpuThatIsSixPercentSlow) {
  EXPECT_EQ(slow_parts({700, 702, 698, 701, 699, 658, 700, 703}, kDeviceTolerance), (std::vector<size_t>{5}));
}

TEST(Fleet, EqualPartsAndOnePartAreNotSlow) {
  EXPECT_TRUE(slow_parts({100, 100, 100}, kDeviceTolerance).empty());
  EXPECT_TRUE(slow_parts({100}, kDeviceTolerance).empty());
}

// With the spread that CPU ranks have on an idle machine.
TEST(Fleet, ThousandCleanFleetsHaveNoSlowPart) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> rate(100, 4);
  int named = 0;
  for (int fleet = 0; fleet < 1000; ++fleet) {
    std::vector<double> rates(static_cast<size_t>(2 + fleet % 63));
    for (double& one : rates) one = rate(random);
    named += static_cast<int>(slow_parts(rates, kHostTolerance).size());
  }
  EXPECT_EQ(named, 0);
}

}  // namespace
}  // namespace trireme

// One clock for the timelines of several machines.
#include "comm/clock_offset.h"

#include <gtest/gtest.h>

#include <array>

namespace trireme {
namespace {

TEST(ClockOffset, IsTakenFromTheFastestAnswer) {
  // The other clock is 1000 s ahead; the ways there and back are as long as each other only in the second sample.
  const std::array<ClockSample, 3> samples = {ClockSample{.sent = 1.0, .received = 1.9, .answered = 1001.8},
                                              ClockSample{.sent = 2.0, .received = 2.002, .answered = 1002.001},
                                              ClockSample{.sent = 3.0, .received = 3.5, .answered = 1003.1}};
  EXPECT_NEAR(clock_offset(samples), 1000, 1e-9);
}

TEST(ClockOffset, OfASharedClockIsExactlyZero) {
  const std::array<ClockSample, 2> samples = {ClockSample{.sent = 1.0, .received = 1.4, .answered = 1.3},
                                              ClockSample{.sent = 2.0, .received = 2.002, .answered = 2.0018}};
  EXPECT_EQ(clock_offset(samples), 0);
  EXPECT_EQ(clock_offset({}), 0);
}

}  // namespace
}  // namespace trireme

// How far the clocks of two machines are apart, from questions and answers between them.
#pragma once

#include <span>

namespace trireme {

// A question to another clock; all times in seconds of the clock that reads them.
struct ClockSample {
  double sent = 0, received = 0;  // here
  double answered = 0;            // there
};

// What has to be added to times of this clock to get times of the other one. The sample with the shortest round trip counts: half
// of that trip is the largest possible error. An offset within it is 0, which is exact for processes that share a clock.
double clock_offset(std::span<const ClockSample> samples);

}  // namespace trireme

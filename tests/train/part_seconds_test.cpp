// Where the time of traced steps went.
#include "train/part_seconds.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme {
namespace {

// Its clock is set by the test.
class ClockInstruments final : public Instruments {
 public:
  void note_time(Stream, double* seconds) override { *seconds = now; }
  double now = 0;
};

TracedCall op(const char* name, double begin, double end) {
  return {.name = name, .stream = kCompute, .begin = begin, .end = end};
}

TracedCall collective(const char* group, double begin, double end) {
  return {
      .kind = TracedCall::Kind::collective, .name = "call", .group = group, .stream = kDataParallel, .begin = begin, .end = end};
}

std::map<std::string, double> parts_of(const std::vector<TracedCall>& calls, double length, int steps = 1) {
  OpTrace trace;
  ClockInstruments clock;
  for (int step = 0; step < steps; ++step) {
    clock.now = step * length;
    trace.begin_step(step, clock);
    for (TracedCall call : calls) {
      call.begin += clock.now, call.end += clock.now;
      trace.add(call);
    }
    clock.now += length;
    trace.end_step(clock);
  }
  const PartSeconds parts = part_seconds(trace);
  EXPECT_EQ(parts.front().first, "compute");
  return {parts.begin(), parts.end()};
}

TEST(PartSecondsTest, CommunicationCountsWhereNoOpRuns) {
  const auto parts = parts_of({op("linear_forward", 0, 4), collective("tp", 3, 6), op("linear_forward", 6, 8),
                               collective("dp_cp", 7, 9), op("adamw", 9, 12), collective("pp", 12, 13)},
                              14);
  EXPECT_EQ(parts.at("compute"), 6);
  EXPECT_EQ(parts.at("tp"), 2);
  EXPECT_EQ(parts.at("dp"), 1);
  EXPECT_EQ(parts.at("optimizer"), 3);
  EXPECT_EQ(parts.at("pipeline"), 1);
  EXPECT_EQ(parts.at("cp"), 0);
  EXPECT_EQ(parts.at("other"), 1);
}

TEST(PartSecondsTest, WhatSeveralShareIsCountedOnce) {
  const auto parts = parts_of({op("a", 0, 2), op("b", 1, 3), collective("tp", 2, 6), collective("pp", 4, 8)}, 8);
  EXPECT_EQ(parts.at("compute"), 3);
  EXPECT_EQ(parts.at("tp"), 3);
  EXPECT_EQ(parts.at("pipeline"), 2);
  EXPECT_EQ(parts.at("other"), 0);
}

TEST(PartSecondsTest, AreThoseOfOneStepAndSumToIt) {
  const auto parts = parts_of({op("a", 0, 2), collective("cp", 2, 3)}, 5, 3);
  double sum = 0;
  for (const auto& [name, seconds] : parts) sum += seconds;
  EXPECT_NEAR(sum, 5, 1e-12);
  EXPECT_NEAR(parts.at("cp"), 1, 1e-12);
}

TEST(PartSecondsTest, WithoutATracedStepThereAreNone) { EXPECT_TRUE(part_seconds(OpTrace()).empty()); }

}  // namespace
}  // namespace trireme

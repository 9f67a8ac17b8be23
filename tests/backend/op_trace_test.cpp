#include "backend/op_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backend/cost/timed_backend.h"
#include "backend/reference/reference_backend.h"
#include "base/file.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

// Streams whose clock moves by a second whenever it is read.
class CountingStreams final : public HostStreams {
 public:
  uint64_t enqueued(Stream) const override { return 0; }
  void wait(Stream, const Event&) override {}
  void synchronize(const Event&) override {}
  void note_time(Stream, double* seconds) override { *seconds = now_ += 1; }
  void collect_times() override {}

 private:
  double now_ = 0;
};

struct CountingMachine {
  CountingStreams streams;
  ReferenceBackend backend;
  CountingMachine() { backend.set_streams(&streams); }
};

TracedCall collective(double begin, double end) {
  return {.kind = TracedCall::Kind::collective,
          .name = "all_reduce",
          .group = "tp",
          .stream = kTensorParallel,
          .bytes = 8,
          .begin = begin,
          .end = end};
}

TEST(OpTrace, AddsUpOpsPerStep) {
  CountingMachine machine;
  OpTrace trace;
  TimedBackend backend(machine.backend, trace);
  std::vector<float> values(16);
  const Tensor out{values.data(), DType::f32, {16}, Device::host};
  backend.run(kCompute, Fill{.value = 3, .out = out});  // outside of a step: not traced
  for (int64_t step = 5; step < 7; ++step) {
    trace.begin_step(step, backend);
    {
      const NamedRange range(backend, "layer", 2);
      backend.run(kCompute, Fill{.value = 1, .out = out});
      backend.run(kCompute, Fill{.value = 2, .out = out});
    }
    trace.end_step(backend);
  }
  EXPECT_EQ(values[7], 2);  // what the ops do is done
  ASSERT_EQ(trace.rows().size(), 1u);
  const OpTrace::Row row = trace.rows()[0];
  EXPECT_EQ(row.name, "fill");
  EXPECT_EQ(row.calls, 2);
  EXPECT_EQ(row.seconds, 2);  // each from one reading of the clock to the next
  EXPECT_EQ(row.bytes, 2 * 16 * 4);
  EXPECT_EQ(trace.step_seconds(), 7);  // eight readings: the step's, the range's and two of each op
  EXPECT_NE(trace.table().find("no op running"), std::string::npos);
}

// Small tensors come from caches, and of a large table few rows are read: such a rate is no share of what memory can do.
TEST(OpTrace, RatesAboveTheCeilingAreNotGivenAsShares) {
  CountingMachine machine;
  OpTrace trace;
  trace.set_ceilings({.flops = 1, .bytes = 100});
  trace.begin_step(0, machine.backend);
  trace.add({.name = "embedding_backward", .stream = kCompute, .bytes = 55007, .begin = 10, .end = 11});
  trace.add({.name = "fill", .stream = kCompute, .bytes = 50, .begin = 12, .end = 13});
  trace.end_step(machine.backend);
  EXPECT_NE(trace.table().find(" >100%"), std::string::npos) << trace.table();
  EXPECT_NE(trace.table().find(" 50%"), std::string::npos) << trace.table();
  EXPECT_EQ(trace.table().find("55007%"), std::string::npos) << trace.table();
}

TEST(OpTrace, SaysHowMuchOfACollectiveIsHiddenBehindOps) {
  CountingMachine machine;
  OpTrace trace;
  trace.begin_step(0, machine.backend);
  trace.add({.name = "fill", .stream = kCompute, .begin = 10, .end = 14});
  trace.add({.name = "copy", .stream = kCompute, .begin = 15, .end = 18});
  trace.add(collective(12, 16));  // 12 to 14 and 15 to 16 while an op was running
  trace.add(collective(18, 20));  // alone
  trace.end_step(machine.backend);
  for (const OpTrace::Row& row : trace.rows())
    if (row.kind == TracedCall::Kind::collective) {
      EXPECT_EQ(row.name, "tp all_reduce");
      EXPECT_EQ(row.seconds, 6);
      EXPECT_EQ(row.hidden, 3);
      return;
    }
  FAIL() << "the collective has no row";
}

TEST(OpTrace, CountsOpsBesideOthersOnce) {
  CountingMachine machine;
  OpTrace trace;
  trace.begin_step(0, machine.backend);
  trace.add({.name = "norm", .stream = kCompute, .begin = 10, .end = 12});
  trace.add({.name = "product", .stream = kWgrad, .begin = 11, .end = 15});  // 11 to 12 and 14 to 15 beside another
  trace.add({.name = "norm", .stream = kCompute, .begin = 14, .end = 16});
  trace.end_step(machine.backend);
  EXPECT_EQ(trace.idle_seconds(), trace.step_seconds() - 6);  // 10 to 16
  for (const OpTrace::Row& row : trace.rows()) {
    EXPECT_EQ(row.seconds, 4) << row.name;
    EXPECT_EQ(row.hidden, row.name == "product" ? 2 : 0);
  }
  EXPECT_NE(trace.table().find("50%"), std::string::npos) << trace.table();
  EXPECT_EQ(trace.json().at("ops").at(0).contains("hidden_seconds"), trace.rows()[0].name == "product");
}

TEST(OpTrace, WritesWhatChromeReads) {
  const TemporaryFolder folder;
  CountingMachine machine;
  OpTrace trace;
  trace.begin_step(4, machine.backend);
  trace.add({.name = "linear_forward", .stream = kCompute, .flops = 4e12, .bytes = 6e9, .begin = 2, .end = 4});
  trace.add(collective(3, 5));
  trace.end_step(machine.backend);
  trace.write_chrome(folder.path() / "trace.json", 7, "node1");
  const auto json = nlohmann::json::parse(read_file(folder.path() / "trace.json", 1 << 20));
  std::vector<std::string> slices;
  for (const auto& event : json.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 7);
    if (event.at("ph") != "X") continue;
    slices.push_back(event.at("name"));
    if (slices.back() != "linear_forward") continue;
    EXPECT_EQ(event.at("ts"), 2e6);  // microseconds
    EXPECT_EQ(event.at("dur"), 2e6);
    EXPECT_EQ(event.at("args").at("TFLOP/s"), 2);
    EXPECT_EQ(event.at("args").at("GB/s"), 3);
  }
  EXPECT_EQ(slices, (std::vector<std::string>{"step 4", "linear_forward", "tp all_reduce"}));
}

TEST(OpTrace, SaysSoWhenNothingWasTraced) { EXPECT_NE(OpTrace().table().find("too short"), std::string::npos); }

}  // namespace
}  // namespace trireme

#include "telemetry/benchmark.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures.h"

namespace trireme {
namespace {

Summary measured(const RunEnd& end) {
  // 16 samples a step of 1 TFLOP (full) or 0.9 (causal) on two devices of 100 TFLOP/s.
  SummarySink sink({.flops_per_sample = 1e12, .devices = 2, .peak = {"a peak", 100}, .causal_flops_per_sample = 0.9e12}, 10);
  for (int64_t step = 0; step < 6; ++step) {
    StepRecord record = ordinary_record(step);
    record.global_batch_size = 16;
    record.step_seconds = step < 2 ? 100 : static_cast<double>(step - 1) / 10;  // 0.1, 0.2, 0.3, 0.4
    record.warm_up = step < 2;
    sink.step(record);
  }
  return sink.summary(end);
}

const BenchmarkFacts kFacts{.recipe = "gpt3/126m",
                            .command = "trireme train gpt3/126m --benchmark",
                            .machine = "cpu: 2 threads",
                            .version = "0.1.0",
                            .commit = "abc",
                            .precision = "bf16",
                            .parameters = 125'262'336,
                            .layers = 12,
                            .width = 768,
                            .heads = 12,
                            .vocabulary = 50304,
                            .sequence_length = 2048,
                            .global_batch_size = 16,
                            .micro_batch_size = 4,
                            .ranks = 2,
                            .data_parallel = 2};

RunEnd two_ranks() {
  RunEnd end;
  end.ranks = {{.rank = 0, .mean_seconds = 0.25, .memory_bytes = int64_t{1} << 30},
               {.rank = 1, .mean_seconds = 0.26, .memory_bytes = int64_t{3} << 29}};
  end.places = {{"run", "runs/b"}};
  return end;
}

TEST(Benchmark, Text) {
  EXPECT_EQ(benchmark_text(kFacts, measured(two_ranks())),
            "benchmark    gpt3/126m: 125.3M parameters, bf16, 16 samples of 2048 tokens per step, micro-batch 4\n"
            "machine      cpu: 2 threads; 2 ranks: TP 1, PP 1, DP 2, CP 1\n"
            "steps        4 steady steps measured, 2 to 5; 2 of warm-up left out\n"
            "step time    mean 250.0 ms  median 250.0 ms  min 100.0 ms  max 400.0 ms  95th percentile 400.0 ms\n"
            "speed        8.2k tokens/s, 4.1k per device\n"
            "rates        32.00 TFLOP/s per device by the full formula, MFU 32.0%\n"
            "             28.80 TFLOP/s per device by the causal formula, MFU 28.8%\n"
            "peak         100.00 TFLOP/s per device (a peak)\n"
            "slowest      rank 1: 260.0 ms per step, 4.0% more than rank 0\n"
            "memory       rank 0 1.0 GiB, rank 1 1.5 GiB\n"
            "loss         2.3412 after 6 steps\n"
            "run          runs/b\n");
}

TEST(Benchmark, Json) {
  const auto json = benchmark_json(kFacts, measured(two_ranks()));
  EXPECT_EQ(json.at("recipe"), "gpt3/126m");
  EXPECT_EQ(json.at("model").at("parameters"), 125'262'336);
  EXPECT_EQ(json.at("layout").at("data_parallel"), 2);
  EXPECT_DOUBLE_EQ(json.at("step_seconds").at("mean").get<double>(), 0.25);
  EXPECT_EQ(json.at("step_seconds").at("min"), 0.1);
  EXPECT_EQ(json.at("step_seconds").at("max"), 0.4);
  EXPECT_DOUBLE_EQ(json.at("rates").at("full").at("tflops_per_device").get<double>(), 32);
  EXPECT_DOUBLE_EQ(json.at("rates").at("causal").at("mfu").get<double>(), 0.288);
  EXPECT_EQ(json.at("peak_tflops_per_device"), 100);
  EXPECT_EQ(json.at("ranks").at(1).at("peak_memory_bytes"), int64_t{3} << 29);
  EXPECT_EQ(json.at("slowest_rank"), 1);
  EXPECT_EQ(json.at("averaged_step_seconds").size(), 4u);
}

TEST(Benchmark, ManyRanksAreNotAllListed) {
  RunEnd end;
  for (int64_t rank = 0; rank < 256; ++rank) end.ranks.push_back({.rank = rank, .mean_seconds = 1, .memory_bytes = 1 << 20});
  EXPECT_NE(benchmark_text(kFacts, measured(end)).find("rank 7 1.0 MiB, and 248 more\n"), std::string::npos);
}

TEST(Benchmark, ARunOfWarmUpOnlySaysSo) {
  SummarySink sink({}, 1);
  StepRecord record = ordinary_record(0);
  record.warm_up = true;
  sink.step(record);
  const Summary summary = sink.summary({});
  EXPECT_NE(benchmark_text(kFacts, summary).find("steps        0 measured, 1 of warm-up left out\n"), std::string::npos);
  EXPECT_TRUE(benchmark_json(kFacts, summary).at("rates").at("full").at("tflops_per_device").is_null());
}

}  // namespace
}  // namespace trireme

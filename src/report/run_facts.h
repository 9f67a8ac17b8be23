// The inputs of rates: batch, sequence, devices, FLOPs and peak. Most are in the log; the user's options take precedence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/run_log.h"
#include "telemetry/peaks.h"

namespace trireme {

// The user's options, under the names of gpu-recipes' training-metrics tool.
struct FactOptions {
  std::optional<int64_t> batch_size;
  std::optional<int64_t> num_accelerators;
  std::optional<std::string> model_type;        // gpt3-175b
  std::optional<double> model_flops;            // forward and backward per sample
  std::optional<std::string> accelerator_type;  // h100
  std::optional<double> max_flops;              // TFLOP/s per accelerator
  std::optional<PeakPrecision> precision;
};

struct FlopsBasis {
  std::string name;  // "full", "causal", "gpt3-175b"
  double per_sample = 0;
};

enum class TrainedIn : uint8_t { unknown, fp32, bf16, fp16, fp8 };
const char* name_of(TrainedIn precision);

// Unknown facts are empty.
struct RunFacts {
  std::optional<int64_t> batch, micro_batch, sequence_length;
  std::optional<int64_t> accelerators;
  std::string accelerators_from;  // "--num_accelerators", "summary.json", ...
  std::string layout;             // "TP 4, PP 8, VP 2, CP 1, DP 8"
  TrainedIn trained_in = TrainedIn::unknown;
  std::vector<FlopsBasis> flops;  // rates use the first
  std::optional<DevicePeak> peak;
  std::vector<std::string> warnings;

  std::optional<double> tokens_per_step() const;
  // Returns TFLOP/s per accelerator for a step of so many seconds.
  std::optional<double> tflops(double step_seconds, const FlopsBasis& basis) const;
  std::optional<double> tflops(double step_seconds) const;
  std::optional<double> mfu(double step_seconds) const;
};

// UserError for an invalid option: a batch of 0, an unknown model or accelerator.
RunFacts facts_of(const RunLog& log, const FactOptions& said);

}  // namespace trireme

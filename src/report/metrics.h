// How fast a run really was: the figures of `trireme metrics`.
//
// The three that begin its output are those of the training-metrics tool of Google's gpu-recipes, by the same rules: the mean of
// "train_step_timing in s" over steps start_step to end_step, both included; FLOPs of a sample * batch / mean / accelerators;
// that over the peak.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/run_facts.h"
#include "report/run_log.h"

namespace trireme {

// Which steps are averaged. A list counts before a range. Without either, 10 to 30, as in the reference tool.
struct StepChoice {
  std::optional<int64_t> start_step, end_step;
  std::vector<int64_t> steps;
};

struct StepTimes {
  std::string source;  // the name of the series: "train_step_timing in s"
  std::string chosen;  // "steps 10 to 30", "steps 149, 169, 189"
  int64_t averaged = 0;
  double mean = 0, median = 0, least = 0, most = 0;  // seconds, over those that were averaged
  double second_half_mean = 0;                       // over the second half of all logged steps
};

struct Rate {
  FlopsBasis basis;
  double tflops = 0;  // of one accelerator
};

struct RunMetrics {
  std::string run;
  int64_t first_step = 0, last_step = 0;
  std::optional<double> first_loss, last_loss, last_validation_loss;
  std::optional<StepTimes> step;  // always there but for logs without step times in measure_second_half
  std::optional<double> tokens_per_second;
  std::vector<Rate> rates;  // the first is the one that MFU is by; empty where the log does not tell enough
  std::optional<double> mfu;
  std::optional<double> memory_bytes;  // the most on one device
  RunFacts facts;
  std::vector<std::string> notes;  // what is missing and how to give it, and what is odd about the log

  std::optional<double> tokens_per_second_per_device() const;
};

// UserError if the log has no step times, or none for the chosen steps. Without a choice a run too short for steps 10 to 30 is
// averaged over its second half, which a note says.
RunMetrics measure(const RunLog& log, const FactOptions& said, const StepChoice& choice);

// The same over the second half of the run, where the start does not count any more. A log without step times is fine.
RunMetrics measure_second_half(const RunLog& log, const FactOptions& said);

std::string reference_lines(const RunMetrics& metrics);  // "Average step time: ...", "TFLOPS/Accelerator: ...", "MFU: ..."
std::string details(const RunMetrics& metrics);          // a line a topic: what was averaged, rates, layout, formulas, peak
std::string comparison_table(const std::vector<RunMetrics>& runs);
nlohmann::ordered_json to_json(const RunMetrics& metrics);

std::string layout_text(const RunFacts& facts);     // "TP 4, PP 8, CP 1, DP 8, micro-batch 1, fp8"
std::string formula_text(const FlopsBasis& basis);  // "the full formula", "gpt3-175b"

}  // namespace trireme

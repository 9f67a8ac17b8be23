// The speed of a run: the figures of `trireme metrics`.
//
// By default they are over the steady steps (LeftOut in telemetry/step_record.h), as in a run's summary and report. Logs of other
// programs do not mark steady steps; there all steps count but the first 5, or the first half of fewer than 10.
//
// The first three figures are those of gpu-recipes' training-metrics tool. With its options they follow its rules: the mean of
// "train_step_timing in s" over steps start_step to end_step, both included; FLOPs per sample * batch / mean / accelerators; and
// that divided by the peak.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/run_facts.h"
#include "report/run_log.h"

namespace trireme {

// Which steps are averaged, by the rules of the reference tool. A list takes precedence over a range. A missing start is 10, a
// missing end 30.
struct StepChoice {
  std::optional<int64_t> start_step, end_step;
  std::vector<int64_t> steps;

  bool is_made() const { return start_step || end_step || !steps.empty(); }
};

struct StepTimes {
  std::string source;  // the name of the series: "train_step_timing_raw in s"
  std::string chosen;  // "steady steps 5 to 49", "steps 10 to 30", "steps 149, 169, 189"
  int64_t averaged = 0;
  int64_t first = 0, last = 0;  // of the steps that were averaged
  double mean = 0;              // seconds
  std::string spread_source;    // the series of the next fields: times of single steps, if they are logged
  double median = 0, least = 0, most = 0;
};

struct Rate {
  FlopsBasis basis;
  double tflops = 0;  // per accelerator
};

struct RunMetrics {
  std::string run;
  int64_t first_step = 0, last_step = 0;
  std::optional<double> first_loss, last_loss, last_validation_loss;
  std::optional<StepTimes> step;  // always set by measure; empty in measure_steady for a log without step times
  std::optional<double> tokens_per_second;
  std::vector<Rate> rates;  // MFU uses the first; empty if the log lacks inputs
  std::optional<double> mfu;
  std::optional<double> memory_bytes;  // peak on one device
  RunFacts facts;
  std::vector<std::string> notes;  // what is missing and which option supplies it, and anomalies of the log

  std::optional<double> tokens_per_second_per_device() const;
};

// UserError if the log has no step times, or none for the chosen steps.
RunMetrics measure(const RunLog& log, const FactOptions& said, const StepChoice& choice);

// The same over the steady steps; accepts a log without step times.
RunMetrics measure_steady(const RunLog& log, const FactOptions& said);

std::string reference_lines(const RunMetrics& metrics);  // "Average step time: ...", "TFLOPS/Accelerator: ...", "MFU: ..."
std::string details(const RunMetrics& metrics);          // one line per topic: averaged steps, rates, layout, formulas, peak
std::string comparison_table(const std::vector<RunMetrics>& runs);
nlohmann::ordered_json to_json(const RunMetrics& metrics);

std::string layout_text(const RunFacts& facts);     // "TP 4, PP 8, CP 1, DP 8, micro-batch 1, fp8"
std::string formula_text(const FlopsBasis& basis);  // "the full formula", "gpt3-175b"

}  // namespace trireme

// The logs of a run, and what it reports at its end. Rank 0 has the terminal and the logs that describe the run; the other ranks
// have a text log each.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/stack_dump.h"
#include "telemetry/benchmark.h"
#include "telemetry/telemetry.h"
#include "telemetry/tensorboard.h"
#include "telemetry/text_log.h"
#include "train/run_setup.h"

namespace trireme {

class RunWatch;
struct RunState;

class RunLogs {
 public:
  explicit RunLogs(const RunSetup& setup) : setup_(setup) {}

  // Into every log that is open; before that on the terminal of rank 0.
  void say(const std::string& text) { tell(Severity::info, text); }
  void warn(const std::string& text) { tell(Severity::warning, text); }

  void open_text_log();           // before anything is said, in the folder that was claimed
  void open(int64_t first_step);  // all others
  Telemetry& telemetry() { return *telemetry_; }
  void close(const RunEnding& ending);  // once; later calls do nothing

  // Of the steps of all ranks, which call this together. Its rates go to TensorBoard.
  Summary summarise(RunOutcome outcome, const RunState& state, RunWatch& watch);
  void report(const Summary& summary);  // on stdout and in the folder

 private:
  void tell(Severity severity, std::string_view text);
  void add_run_logs(int64_t first_step, const Notify& notify);
  std::string next_command(RunOutcome outcome, const RunState& state) const;
  void gather_ranks(RunEnd& end) const;
  PartSeconds gather_parts() const;
  RunEnd run_end(RunOutcome outcome, const RunState& state, RunWatch& watch) const;
  BenchmarkFacts benchmark_facts() const;

  const RunSetup& setup_;
  std::optional<StackDump> stack_dump_;
  std::unique_ptr<TextLogSink> text_log_;  // until the other logs are there, and it is one of them
  std::unique_ptr<Telemetry> telemetry_;
  SummarySink* summary_ = nullptr;
  TensorboardSink* tensorboard_ = nullptr;
  bool closed_ = false;
};

}  // namespace trireme

// Looks inside steps: op by op for --trace-ops, or for a profiler that watches from outside (model.nsys_profile).
#pragma once

#include <filesystem>

#include "train/run_logs.h"
#include "train/run_setup.h"

namespace trireme {

class StepTracer {
 public:
  explicit StepTracer(RunSetup& setup) : setup_(setup) {}

  void set_first_step(int64_t step) { first_step_ = step; }  // of this process
  bool is_traced(int64_t step) const;
  bool is_profiled(int64_t step) const;

  Profiling profiling() const { return profiling_; }
  void set_profiling(Profiling wanted);  // between steps
  void start_traced_step(int64_t step, Engine& engine, const StepInput& input);

  void report(RunLogs& logs);  // at the end of the run: the table, and files in the folder

 private:
  std::filesystem::path write_timelines(RunLogs& logs) const;

  RunSetup& setup_;
  int64_t first_step_ = 0;
  Profiling profiling_ = Profiling::off;
  double clock_offset_ = 0;  // to rank 0's clock
};

}  // namespace trireme

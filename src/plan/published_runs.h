// Files of measured runs: one line per run with its model, layout, hardware, software and time per step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/step_time.h"

namespace trireme {

enum class RunUse : uint8_t { scored, reported };  // reported: listed, but not counted in errors

struct PublishedRun {
  int64_t line = 0;  // of the file
  RunUse use = RunUse::scored;
  std::string profile, source, model, gpu, network, precision, recompute;
  int64_t gpus = 0, layers = 0, hidden = 0, heads = 0, ffn = 0, vocabulary = 0, sequence = 0;
  int64_t tp = 1, pp = 1, vp = 1, cp = 1, micro_batch = 0, global_batch = 0;
  bool sequence_parallel = false;
  double step_seconds = 0;
  double memory_gib = 0;  // that the software's tensors took on the largest rank; 0: not published

  int64_t data_parallel() const { return gpus / (tp * pp * cp); }
  std::string missing;  // why it cannot be predicted; only of reported runs
};

// A UserError names the line and the column of the first bad value.
std::vector<PublishedRun> read_published_runs(const std::string& path);

// The shipped platform that a run's GPU and network are: "DGX-H100 IB NDR400/GPU" is dgx-h100.
std::string platform_of(const PublishedRun& run);

// The run as settings of this program. Throws a UserError if they are not valid.
Settings settings_of(const PublishedRun& run, const SoftwareProfile& software);

// A run that is ready to be timed. Runs of the same model and layout share a case.
struct PreparedRun {
  PublishedRun run;
  std::shared_ptr<const PlanCase> plan_case;  // null if run.missing
  std::string platform;
  double model_flops = 0;  // of a step
};
std::vector<PreparedRun> prepare_runs(const std::string& path, const std::vector<SoftwareProfile>& software);

}  // namespace trireme

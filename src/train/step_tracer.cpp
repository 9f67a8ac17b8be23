#include "train/step_tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "backend/chrome_trace.h"
#include "comm/control.h"
#include "train/ceilings.h"

namespace trireme {

// A few steps, when the first ones, in which plans and pages are made, are over.
bool StepTracer::is_traced(int64_t step) const {
  constexpr int64_t kTracedSteps = 3;
  const int64_t steps = setup_.settings.trainer.max_steps - first_step_, warm_up = warm_up_steps(steps);
  const bool is_asked = setup_.request.trace_ops == TraceOps::yes;
  // For the parts of a prediction, if as many steps are left to be measured as they are.
  const bool is_predicted = setup_.prediction.has_value() && steps >= warm_up + 2 * kTracedSteps;
  if (!is_asked && !is_predicted) return false;
  const int64_t first = first_step_ + warm_up;
  return step >= first && step < first + kTracedSteps;
}

bool StepTracer::is_profiled(int64_t step) const {
  const ProfileSettings& profile = setup_.model.profile;
  return profile.enabled && step >= profile.start_step && step <= profile.end_step &&
         std::ranges::find(profile.ranks, setup_.world.rank()) != profile.ranks.end();
}

void StepTracer::set_profiling(Profiling wanted) {
  if (wanted == profiling_) return;
  profiling_ = wanted;
  setup_.trace.set_names(wanted == Profiling::on ? Tracing::names : Tracing::off);
  setup_.backend.set_profiling(wanted);
}

void StepTracer::start_traced_step(int64_t step, Engine& engine, const StepInput& input) {
  // Now and not at the end of the run, because clocks drift apart by seconds in a week.
  if (setup_.trace.steps() == 0) clock_offset_ = setup_.control.offset_to_rank_0();
  setup_.trace.begin_step(step, setup_.backend);
  engine.start_step(input);
  setup_.trace.end_step(setup_.backend);
}

void StepTracer::report(RunLogs& logs) {
  if (setup_.request.trace_ops == TraceOps::no) return;
  // Now, when no step needs the scratch memory any more and the machine is as warm as it was in the steps.
  const DType dtype = activation_dtype(setup_.settings.trainer.precision);
  setup_.trace.set_ceilings(
      measure_ceilings(setup_.machine.backend(), dtype, setup_.model.fp8.enabled ? GemmPrecision::fp8 : GemmPrecision::plain));
  const std::filesystem::path timeline = write_timelines(logs);
  const std::string ops = fmt::format("ops_globalrank-{}.json", setup_.world.rank());
  write_report(setup_.trace.json(), setup_.folder.file(ops).string(), logs.telemetry().notify());
  if (!setup_.is_first() || setup_.request.report_format == ReportFormat::json) return;
  fmt::print("\n{}trace   {} (open it in ui.perfetto.dev or chrome://tracing)\n", setup_.trace.table(), timeline.string());
}

// Every rank writes its own timeline. Rank 0 then joins them in one file, and returns the path of that.
std::filesystem::path StepTracer::write_timelines(RunLogs& logs) const {
  const auto file_of = [&](int rank) { return setup_.folder.file(fmt::format("trace_globalrank-{}.json", rank)); };
  const int rank = setup_.world.rank();
  std::string trouble;
  try {
    setup_.trace.write_chrome(file_of(rank), rank, setup_.control.places()[static_cast<size_t>(rank)].host, clock_offset_);
  } catch (const Failure& failure) {
    trouble = failure.what();
    logs.warn(trouble);
  }
  const std::vector<std::string> troubles = setup_.control.gather("timelines", trouble);
  if (rank != 0 || setup_.world.size() == 1) return file_of(rank);
  std::vector<std::filesystem::path> files;
  for (size_t other = 0; other < troubles.size(); ++other)
    if (troubles[other].empty()) files.push_back(file_of(static_cast<int>(other)));
  const std::filesystem::path all = setup_.folder.file("trace.json");
  try {
    join_chrome_traces(files, all);
  } catch (const Failure& failure) {
    logs.warn(failure.what());
    return file_of(rank);
  }
  return all;
}

}  // namespace trireme

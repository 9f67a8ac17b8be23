#include "train/step_tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "comm/control.h"
#include "train/ceilings.h"

namespace trireme {

// A few steps, when the first ones, in which plans and pages are made, are over.
bool StepTracer::is_traced(int64_t step) const {
  constexpr int64_t kTracedSteps = 3;
  if (setup_.request.trace_ops == TraceOps::no) return false;
  const int64_t first = first_step_ + warm_up_steps(setup_.settings.trainer.max_steps - first_step_);
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
  const int rank = setup_.world.rank();
  const RankPlace& place = setup_.control.places()[static_cast<size_t>(rank)];
  const auto chrome = setup_.folder.file(fmt::format("trace_globalrank-{}.json", rank));
  try {
    setup_.trace.write_chrome(chrome, rank, place.host);
  } catch (const Failure& failure) {
    logs.warn(failure.what());
  }
  write_report(setup_.trace.json(), setup_.folder.file(fmt::format("ops_globalrank-{}.json", rank)).string(),
               logs.telemetry().notify());
  if (!setup_.is_first() || setup_.request.report_format == ReportFormat::json) return;
  fmt::print("\n{}trace   {} (open it in chrome://tracing or ui.perfetto.dev)\n", setup_.trace.table(), chrome.string());
}

}  // namespace trireme

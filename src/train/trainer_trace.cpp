// The part of the trainer that looks inside steps: op by op, or for a profiler that watches from outside.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "comm/control.h"
#include "train/ceilings.h"
#include "train/trainer.h"

namespace trireme {

// A few steps, when the first ones, in which plans and pages are made, are over.
bool Trainer::is_traced(int64_t step) const {
  constexpr int64_t kTracedSteps = 3;
  if (request_.trace_ops == TraceOps::no) return false;
  const int64_t first = first_step_ + warm_up_steps(settings_.trainer.max_steps - first_step_);
  return step >= first && step < first + kTracedSteps;
}

bool Trainer::is_profiled(int64_t step) const {
  const ProfileSettings& profile = model_.profile;
  return profile.enabled && step >= profile.start_step && step <= profile.end_step &&
         std::ranges::find(profile.ranks, world_.rank()) != profile.ranks.end();
}

void Trainer::set_profiling(Profiling wanted) {
  if (wanted == profiling_) return;
  finish_steps(0);
  profiling_ = wanted;
  trace_.set_names(wanted == Profiling::on ? Tracing::names : Tracing::off);
  backend_->set_profiling(wanted);
}

void Trainer::start_step(const StepInput& input) {
  set_profiling(is_profiled(step_) ? Profiling::on : Profiling::off);
  if (!is_traced(step_) || is_profiled(step_)) return engine_->start_step(input);
  finish_steps(0);
  last_done_ = system_clock().seconds();
  trace_.begin_step(step_, *backend_);
  engine_->start_step(input);
  trace_.end_step(*backend_);
}

void Trainer::report_trace() {
  if (request_.trace_ops == TraceOps::no) return;
  // Now, when no step needs the scratch memory any more and the machine is as warm as it was in the steps.
  const DType dtype = activation_dtype(settings_.trainer.precision);
  trace_.set_ceilings(measure_ceilings(machine_.backend(), dtype, model_.fp8.enabled ? Products::fp8 : Products::plain));
  const int rank = world_.rank();
  const RankPlace& place = control_.places()[static_cast<size_t>(rank)];
  const auto chrome = folder_.file(fmt::format("trace_globalrank-{}.json", rank));
  try {
    trace_.write_chrome(chrome, rank, place.host);
  } catch (const Failure& failure) {
    warn(failure.what());
  }
  write_report(trace_.json(), folder_.file(fmt::format("ops_globalrank-{}.json", rank)).string(), telemetry_->notify());
  if (!is_first() || request_.report_format == ReportFormat::json) return;
  fmt::print("\n{}trace   {} (open it in chrome://tracing or ui.perfetto.dev)\n", trace_.table(), chrome.string());
}

}  // namespace trireme

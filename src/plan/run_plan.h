// The prediction for one run: its memory, the time of its step, and what follows from that.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/step_time.h"
#include "telemetry/flops.h"
#include "train/target_plan.h"

namespace trireme {

struct PlanRequest {
  Settings settings;  // valid, for the ranks of the cluster
  Platform platform;
  SoftwareProfile software;
  double tokens = 0;              // to train on; 0: not asked
  double price_per_gpu_hour = 0;  // 0: the platform's
};

struct RunPlan {
  PlanRequest request;
  TargetPlan memory;
  StepTime step;
  RateBasis rates;

  double tokens_per_second() const;
  double tflops_per_gpu() const;
  double days() const;  // to the tokens asked for
  double gpu_hours() const;
  double cost() const;
};

RunPlan plan_run(const PlanRequest& request);

// The parts of a step by name and in words.
struct StepPart {
  const char *name, *label;
  double StepTime::*seconds;
};
inline constexpr std::array kStepParts{
    StepPart{"compute", "compute", &StepTime::compute},       StepPart{"tp", "TP communication", &StepTime::tp},
    StepPart{"cp", "CP communication", &StepTime::cp},        StepPart{"pp", "p2p between stages", &StepTime::pp},
    StepPart{"bubble", "bubble", &StepTime::bubble},          StepPart{"dp", "DP communication", &StepTime::dp},
    StepPart{"optimizer", "optimizer", &StepTime::optimizer}, StepPart{"other", "other", &StepTime::other},
};

// The same from a step and a memory plan that are known.
RunPlan plan_of(const PlanRequest& request, TargetPlan memory, const StepTime& step);

// The platform's GPU, with its memory.
GpuKind gpu_kind_of(const Platform& platform);

// What a step is recorded for.
RecordedDevice device_of(const Platform& platform);

// Throws a UserError if nothing is known of the recipe's number format there or, where the platform was measured, of its ranks.
void require_timed(const PlanRequest& request);

StepTime step_of(const PlanRequest& request);
std::string parts_text(const StepTime& step);  // "compute 1.2 s (90.1%), ..."

// Several lines for a terminal. `name` is the recipe's.
std::string text_of(const RunPlan& plan, const std::string& name);
nlohmann::ordered_json json_of(const RunPlan& plan, const std::string& name);

Played timeline_of(const PlanRequest& request);

// What chrome://tracing and Perfetto read: one process per pipeline stage.
nlohmann::ordered_json chrome_trace(const PlanRequest& request);

// "300B" or "1.4T" as a count. `option` is what the user typed before it.
double count_from_text(const std::string& text, const std::string& option);

// "8,16,24" or "8,...,1024" as a list that grows; ... doubles what is before it up to what is after it.
std::vector<int64_t> counts_from_text(const std::string& text, const std::string& option);

}  // namespace trireme

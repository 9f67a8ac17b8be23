#include "comm/activity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/median.h"

namespace trireme {
namespace {

constexpr std::array kNames = {"start-up",         "first steps", "step",       "step",      "waiting for data",
                               "first validation", "validation",  "checkpoint", "profiling", "stopping"};
static_assert(kNames.size() == kRunPhases);

}  // namespace

const char* name_of(RunPhase phase) { return kNames[static_cast<size_t>(phase)]; }

std::string Activity::text() const {
  const bool has_step = step >= 0;
  switch (phase) {
    case RunPhase::step:
    case RunPhase::device_step:
    case RunPhase::first_steps:
      return fmt::format("step {}{}", step + 1, micro_batch >= 0 ? fmt::format(", micro-batch {}", micro_batch + 1) : "");
    case RunPhase::data:
    case RunPhase::profiling:
      return fmt::format("{} in step {}", name_of(phase), step + 1);
    default:
      return has_step ? fmt::format("{} after step {}", name_of(phase), step) : name_of(phase);
  }
}

std::string Activity::place() const { return calls > 0 ? fmt::format("{}, collective {}", text(), calls) : text(); }

nlohmann::json json_of(const Activity& activity) {
  return nlohmann::json::array(
      {static_cast<int>(activity.phase), activity.step, activity.micro_batch, activity.calls, activity.waits, activity.still});
}

Activity activity_of(const nlohmann::json& json) {
  const int phase = json.at(0);
  if (phase < 0 || phase >= static_cast<int>(kNames.size())) throw Failure("there is no phase {}", phase);
  return {.phase = static_cast<RunPhase>(phase),
          .step = json.at(1),
          .micro_batch = json.at(2),
          .calls = json.at(3),
          .waits = json.at(4),
          .still = json.at(5)};
}

ActivityBoard::ActivityBoard(const Clock& clock, double age) : clock_(clock), started_at_(clock.seconds() - age) {}

const ActivityBoard::PhaseTimes& ActivityBoard::times() {
  const int64_t now = std::llround((clock_.seconds() - started_at_) * 1e6);
  times_[static_cast<size_t>(phase_.load())] += now - counted_;
  counted_ = now;
  return times_;
}

void ActivityBoard::enter(RunPhase phase) {
  times();
  phase_ = phase;
}

void ActivityBoard::begin_step(int64_t steps_done, RunPhase kind) {
  const double now = clock_.seconds();
  if (step_ >= 0) {
    seconds_[static_cast<size_t>(timed_ % kWindow)] = now - begun_at_;
    timed_ += 1;
  }
  begun_at_ = now;
  if (timed_ >= kFirstSteps) median_ = median(std::span(seconds_).first(static_cast<size_t>(std::min(timed_, kWindow))));
  step_ = steps_done;
  micro_batch_ = -1;
  enter(timed_ < kFirstSteps ? RunPhase::first_steps : kind);
}

Activity ActivityBoard::seen() const {
  return {.phase = phase_, .step = step_, .micro_batch = micro_batch_, .calls = 0, .waits = false, .still = 0};
}

}  // namespace trireme

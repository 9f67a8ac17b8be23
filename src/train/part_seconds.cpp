#include "train/part_seconds.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "comm/group_kind.h"

namespace trireme {
namespace {

struct BusyTime {
  double begin = 0, end = 0;
};

// Times at which something runs: disjoint and sorted.
class Timeline {
 public:
  // Returns the seconds of it that were not covered before.
  double cover(std::vector<BusyTime> more) {
    const double before = covered_;
    more.insert(more.end(), times_.begin(), times_.end());
    std::ranges::sort(more, {}, &BusyTime::begin);
    times_.clear();
    for (const BusyTime& time : more) {
      if (times_.empty() || time.begin > times_.back().end)
        times_.push_back(time);
      else
        times_.back().end = std::max(times_.back().end, time.end);
    }
    covered_ = 0;
    for (const BusyTime& time : times_) covered_ += time.end - time.begin;
    return covered_ - before;
  }

 private:
  std::vector<BusyTime> times_;
  double covered_ = 0;
};

bool is_of_optimizer(const TracedCall& call) {
  constexpr std::array<std::string_view, 6> kOps{"adamw",      "squared_norms",     "apply_clip",
                                                 "scale_loss", "update_loss_scale", "update_scales"};
  return std::ranges::find(kOps, std::string_view(call.name)) != kOps.end();
}

const char* part_of(const TracedCall& call) {
  if (call.kind == TracedCall::Kind::op) return is_of_optimizer(call) ? "optimizer" : "compute";
  const std::string_view group = call.group;
  if (group == name_of(GroupKind::tp)) return "tp";
  if (group == name_of(GroupKind::cp)) return "cp";
  if (group == name_of(GroupKind::pp)) return "pipeline";
  return "dp";
}

}  // namespace

PartSeconds part_seconds(const OpTrace& trace) {
  if (trace.steps() == 0) return {};
  // What comes first has the time that several share.
  constexpr std::array kParts{"compute", "optimizer", "tp", "cp", "dp", "pipeline"};
  Timeline timeline;
  PartSeconds parts;
  double rest = trace.step_seconds();
  for (const std::string_view part : kParts) {
    std::vector<BusyTime> times;
    for (const TracedCall& call : trace.calls())
      if (call.kind != TracedCall::Kind::range && part_of(call) == part) times.push_back({call.begin, call.end});
    const double seconds = timeline.cover(std::move(times)) / static_cast<double>(trace.steps());
    parts.emplace_back(part, seconds);
    rest -= seconds;
  }
  parts.emplace_back("other", std::max(rest, 0.0));
  return parts;
}

}  // namespace trireme

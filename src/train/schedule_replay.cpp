#include "train/schedule_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace trireme {
namespace {

enum LinkDirection : size_t { kForward, kBackward, kDirections };

LinkDirection direction_of(ActionKind kind) {
  return kind == ActionKind::send_backward || kind == ActionKind::receive_backward ? kBackward : kForward;
}

// What goes from one stage to a neighbour, in one direction.
struct Edge {
  std::vector<double> sent, received;  // when each side was ready, by message: times never fall

  bool passed(size_t message) const { return message < sent.size() && message < received.size(); }
  double time(size_t message) const { return std::max(sent[message], received[message]); }
};

struct Stage {
  std::vector<Action> list;
  size_t at = 0;
  double clock = 0, work = 0;
  std::array<size_t, kDirections> sends{}, receives{}, taken{};  // messages so far
};

class Player {
 public:
  Player(const Pipeline& pipeline, const Duration& duration) : pipeline_(pipeline), duration_(duration) {
    for (int64_t stage = 0; stage < pipeline.stages; ++stage) stages_.push_back({.list = make_schedule(pipeline, stage)});
    edges_.resize(stages_.size() * kDirections);
    result_.stages.resize(stages_.size());
  }

  Replay play() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < stages_.size(); ++stage)
        while (stages_[stage].at < stages_[stage].list.size() && step(stage)) moved = true;
    }
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      const Stage& s = stages_[stage];
      result_.length = std::max(result_.length, s.clock);
      result_.work = std::max(result_.work, s.work);
      if (s.at < s.list.size() && result_.stuck.empty())
        result_.stuck = fmt::format("stage {} at action {} of {}", stage, s.at, s.list.size());
    }
    return std::move(result_);
  }

 private:
  // The edge out of a stage, and the one into it: forward from the stage before, backward from the one behind.
  Edge& out(size_t stage, LinkDirection d) { return edges_[stage * kDirections + d]; }
  Edge& in(size_t stage, LinkDirection d) {
    const size_t count = stages_.size();
    return out(d == kForward ? (stage + count - 1) % count : (stage + 1) % count, d);
  }

  bool step(size_t index) {
    Stage& stage = stages_[index];
    const Action& action = stage.list[stage.at];
    const LinkDirection d = direction_of(action.kind);
    if (is_send(action.kind)) {
      out(index, d).sent.push_back(stage.clock);
      stage.sends[d] += 1;
      result_.messages += 1;
    } else if (is_receive(action.kind)) {
      in(index, d).received.push_back(stage.clock);
      stage.receives[d] += 1;
    } else if (!compute(index, action)) {
      return false;
    }
    stage.at += 1;
    return true;
  }

  // The messages that must have passed before the computation begins: how many of each edge.
  bool wait(const Edge& edge, size_t messages, double& begin) const {
    if (messages == 0) return true;
    if (!edge.passed(messages - 1)) return false;
    begin = std::max(begin, edge.time(messages - 1));
    return true;
  }

  bool compute(size_t index, const Action& action) {
    Stage& stage = stages_[index];
    const auto number = static_cast<int64_t>(index);
    double begin = stage.clock;
    const bool overlapped = pipeline_.messages == Messages::overlapped;
    const auto buffers = static_cast<size_t>(message_buffers(pipeline_.messages));
    const bool forward = action.kind == ActionKind::forward || action.kind == ActionKind::forward_only;
    const LinkDirection d = forward ? kForward : kBackward;
    const bool weight = action.kind == ActionKind::backward_weight;
    const bool receives =
        !weight && !(forward ? pipeline_.is_first(number, action.chunk) : pipeline_.is_last(number, action.chunk));
    const bool sends = !weight && !(forward ? pipeline_.is_last(number, action.chunk) : pipeline_.is_first(number, action.chunk));
    for (const LinkDirection each : {kForward, kBackward}) {
      // Its input must have come, and the buffer of its output be free; who does not overlap waits for everything.
      const size_t received = overlapped ? (receives && each == d ? stage.taken[each] + 1 : 0) : stage.receives[each];
      const size_t sent = !overlapped                                             ? stage.sends[each]
                          : sends && each == d && stage.sends[each] + 1 > buffers ? stage.sends[each] + 1 - buffers
                                                                                  : 0;
      if (!wait(in(index, each), received, begin) || !wait(out(index, each), sent, begin)) return false;
    }
    if (receives) stage.taken[d] += 1;
    const double end = begin + duration_(number, action);
    result_.stages[index].push_back({action, begin, end});
    stage.work += end - begin;
    stage.clock = end;
    return true;
  }

  const Pipeline& pipeline_;
  const Duration& duration_;
  std::vector<Stage> stages_;
  std::vector<Edge> edges_;  // by stage it leaves and direction
  Replay result_;
};

}  // namespace

double unit_time(int64_t, const Action& action) { return action.kind == ActionKind::backward ? 2 : 1; }

Replay replay(const Pipeline& pipeline, const Duration& duration) { return Player(pipeline, duration).play(); }

double closed_form_bubble(const Pipeline& p) {
  if (p.kind == ScheduleKind::forward_only) return 0;
  const auto stages = static_cast<double>(p.stages), micro_batches = static_cast<double>(p.micro_batches);
  // Units of time in which a stage has nothing to do; a micro-batch takes three.
  if (p.kind == ScheduleKind::zero_bubble && p.stages > 1)
    return (stages - 1 + std::max(0.0, stages - micro_batches)) / (3 * micro_batches);
  return (stages - 1) / (static_cast<double>(p.chunks) * micro_batches);
}

int64_t closed_form_messages(const Pipeline& p) {
  const int64_t directions = p.kind == ScheduleKind::forward_only ? 1 : 2;
  return directions * p.micro_batches * (p.stages * p.chunks - 1);
}

}  // namespace trireme

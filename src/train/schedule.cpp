#include "train/schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"

namespace trireme {
namespace {

// One computation, or two that belong together: no message is exchanged between them.
using Group = std::vector<Action>;

Action compute(ActionKind kind, int64_t micro_batch, int64_t chunk = 0) { return {kind, micro_batch, chunk, {}}; }

std::vector<Group> all_forward(const Pipeline& p) {
  std::vector<Group> groups;
  // As many micro-batches as there are stages pass through one chunk after the other, then the next ones.
  for (int64_t begin = 0; begin < p.micro_batches; begin += p.stages)
    for (int64_t chunk = 0; chunk < p.chunks; ++chunk)
      for (int64_t i = begin; i < std::min(begin + p.stages, p.micro_batches); ++i)
        groups.push_back({compute(ActionKind::forward_only, i, chunk)});
  return groups;
}

std::vector<Group> gpipe(const Pipeline& p) {
  std::vector<Group> groups;
  for (const ActionKind kind : {ActionKind::forward, ActionKind::backward})
    for (int64_t i = 0; i < p.micro_batches; ++i) groups.push_back({compute(kind, i)});
  return groups;
}

std::vector<Group> one_forward_one_backward(const Pipeline& p, int64_t stage) {
  // Forwards before the first backward: as many as it takes until the last stage could have sent one back.
  const int64_t warm_up = std::min(p.stages - stage - 1, p.micro_batches);
  std::vector<Group> groups;
  for (int64_t i = 0; i < p.micro_batches + warm_up; ++i) {
    if (i < p.micro_batches) groups.push_back({compute(ActionKind::forward, i)});
    if (i >= warm_up) groups.push_back({compute(ActionKind::backward, i - warm_up)});
  }
  return groups;
}

std::vector<Group> interleaved(const Pipeline& p, int64_t stage) {
  CHECK_EQ(p.micro_batches % p.stages, 0);
  const int64_t total = p.micro_batches * p.chunks;
  // All stages make the same passes in the same order: so many micro-batches as there are stages on one chunk, the same on the
  // next; backward begins with the last chunk.
  const auto pass = [&](ActionKind kind, int64_t number) {
    const int64_t round = number / (p.stages * p.chunks), rest = number % (p.stages * p.chunks), chunk = rest / p.stages;
    return compute(kind, round * p.stages + rest % p.stages, kind == ActionKind::forward ? chunk : p.chunks - 1 - chunk);
  };
  const int64_t warm_up = std::min(2 * (p.stages - stage - 1) + (p.chunks - 1) * p.stages, total);
  std::vector<Group> groups;
  for (int64_t i = 0; i < warm_up; ++i) groups.push_back({pass(ActionKind::forward, i)});
  for (int64_t i = warm_up; i < total; ++i) {
    const Action forward = pass(ActionKind::forward, i), backward = pass(ActionKind::backward, i - warm_up);
    // Stages that wait for their messages must all exchange them at the same points, or they wait for each other in a ring.
    if (p.messages == Messages::waited)
      groups.push_back({forward, backward});
    else
      groups.insert(groups.end(), {{forward}, {backward}});
  }
  for (int64_t i = total - warm_up; i < total; ++i) groups.push_back({pass(ActionKind::backward, i)});
  return groups;
}

// The order of 1F1B with wgrad deferred: stage s keeps s of them back, so that the gradients of activations reach
// the first stage sooner, and no stage holds more than `stages` micro-batches at once.
std::vector<Group> zero_bubble(const Pipeline& p, int64_t stage) {
  const int64_t warm_up = std::min(p.stages - stage - 1, p.micro_batches);
  std::vector<Group> groups;
  int64_t weights = 0;
  for (int64_t i = 0; i < p.micro_batches + warm_up; ++i) {
    if (i < p.micro_batches) groups.push_back({compute(ActionKind::forward, i)});
    if (i < warm_up) continue;
    groups.push_back({compute(ActionKind::backward_input, i - warm_up)});
    if (i - warm_up - weights >= stage) groups.push_back({compute(ActionKind::backward_weight, weights++)});
  }
  while (weights < p.micro_batches) groups.push_back({compute(ActionKind::backward_weight, weights++)});
  return groups;
}

std::vector<Group> computations(const Pipeline& p, int64_t stage) {
  switch (p.kind) {
    case ScheduleKind::forward_only:
      return all_forward(p);
    case ScheduleKind::gpipe:
      CHECK_EQ(p.chunks, 1);
      return gpipe(p);
    case ScheduleKind::zero_bubble:
      CHECK_EQ(p.chunks, 1);
      return zero_bubble(p, stage);
    case ScheduleKind::one_forward_one_backward:
      return p.chunks == 1 ? one_forward_one_backward(p, stage) : interleaved(p, stage);
  }
  CHECK_NEVER("no such schedule");
}

// The computations with what each receives before and sends after it.
std::vector<Action> with_messages(const std::vector<Group>& groups, const Pipeline& p, int64_t stage) {
  std::vector<Action> list;
  const auto add = [&](ActionKind kind, const Action& for_whom) {
    list.push_back({kind, for_whom.micro_batch, for_whom.chunk, {}});
  };
  const auto is_forward = [](const Action& a) { return a.kind == ActionKind::forward || a.kind == ActionKind::forward_only; };
  for (const Group& group : groups) {
    for (const Action& a : group) {
      if (is_forward(a) && !p.is_first(stage, a.chunk)) add(ActionKind::receive_forward, a);
      if ((a.kind == ActionKind::backward || a.kind == ActionKind::backward_input) && !p.is_last(stage, a.chunk))
        add(ActionKind::receive_backward, a);
    }
    list.insert(list.end(), group.begin(), group.end());
    for (const Action& a : group) {
      if (is_forward(a) && !p.is_last(stage, a.chunk)) add(ActionKind::send_forward, a);
      if ((a.kind == ActionKind::backward || a.kind == ActionKind::backward_input) && !p.is_first(stage, a.chunk))
        add(ActionKind::send_backward, a);
    }
  }
  return list;
}

// Moves each receive before the computation that comes before it, but not past another receive from the same neighbour.
std::vector<Action> receive_early(const std::vector<Action>& list) {
  std::vector<Action> early;
  for (const Action& action : list) {
    auto at = early.end();
    if (is_receive(action.kind))
      while (at != early.begin() && (at - 1)->kind != action.kind) {
        --at;
        if (is_compute(at->kind)) break;
      }
    early.insert(at, action);
  }
  return early;
}

using Holder = std::pair<int64_t, int64_t>;  // micro-batch and chunk

// Gives each holder the lowest slot that is free from its first to its last action. An action without a holder uses no slot.
void assign(std::vector<Action>& list, int64_t Slots::*slot,
            const std::function<std::optional<Holder>(const Action&)>& holder_of) {
  std::map<Holder, size_t> last_use;
  for (size_t i = 0; i < list.size(); ++i)
    if (const std::optional<Holder> holder = holder_of(list[i])) last_use[*holder] = i;
  std::map<Holder, int64_t> held;
  std::vector<bool> taken;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::optional<Holder> holder = holder_of(list[i]);
    if (!holder) continue;
    if (!held.contains(*holder)) {
      const auto free = std::find(taken.begin(), taken.end(), false);
      held[*holder] = free - taken.begin();
      if (free == taken.end())
        taken.push_back(true);
      else
        *free = true;
    }
    list[i].slots.*slot = held[*holder];
    if (last_use[*holder] == i) taken[static_cast<size_t>(held[*holder])] = false;
  }
}

// All chunks share the tokens of a micro-batch. Of the other rings each chunk holds slots of its own.
void assign_slots(std::vector<Action>& list) {
  const auto chunk_in = [](const Action& a, std::initializer_list<ActionKind> kinds) {
    return std::ranges::count(kinds, a.kind) > 0 ? std::optional(Holder{a.micro_batch, a.chunk}) : std::nullopt;
  };
  using enum ActionKind;
  assign(list, &Slots::batch, [](const Action& a) {
    return is_compute(a.kind) ? std::optional(Holder{a.micro_batch, 0}) : std::nullopt;
  });
  assign(list, &Slots::saved, [&](const Action& a) { return chunk_in(a, {forward, forward_only, backward, backward_input}); });
  assign(list, &Slots::inputs, [&](const Action& a) {
    return chunk_in(a, {forward, forward_only, backward, backward_input, backward_weight});
  });
  assign(list, &Slots::gradients, [&](const Action& a) { return chunk_in(a, {backward_input, backward_weight}); });
}

}  // namespace

const char* name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::receive_forward:
      return "receive_forward";
    case ActionKind::forward:
      return "forward";
    case ActionKind::forward_only:
      return "forward_only";
    case ActionKind::send_forward:
      return "send_forward";
    case ActionKind::receive_backward:
      return "receive_backward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::backward_input:
      return "backward_input";
    case ActionKind::backward_weight:
      return "backward_weight";
    case ActionKind::send_backward:
      return "send_backward";
  }
  CHECK_NEVER("unknown action");
}

std::vector<Action> make_schedule(const Pipeline& pipeline, int64_t stage) {
  CHECK(stage >= 0 && stage < pipeline.stages && pipeline.micro_batches > 0 && pipeline.chunks > 0);
  std::vector<Action> list = with_messages(computations(pipeline, stage), pipeline, stage);
  if (pipeline.messages == Messages::overlapped) list = receive_early(list);
  assign_slots(list);
  return list;
}

Slots slots_needed(const std::vector<Action>& schedule) {
  Slots most;
  for (const Action& action : schedule) {
    most.batch = std::max(most.batch, action.slots.batch + 1);
    most.saved = std::max(most.saved, action.slots.saved + 1);
    most.inputs = std::max(most.inputs, action.slots.inputs + 1);
    if (action.kind == ActionKind::backward_input) most.gradients = std::max(most.gradients, action.slots.gradients + 1);
  }
  return most;
}

}  // namespace trireme

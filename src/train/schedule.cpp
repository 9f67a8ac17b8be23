#include "train/schedule.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

class ScheduleBuilder {
 public:
  ScheduleBuilder(int64_t stages, int64_t stage, int64_t slots) : first_(stage == 0), last_(stage == stages - 1), slots_(slots) {}

  void forward(ActionKind kind, int64_t micro_batch) {
    if (!first_) add(ActionKind::receive_forward, micro_batch);
    add(kind, micro_batch);
    if (!last_) add(ActionKind::send_forward, micro_batch);
  }
  void backward(int64_t micro_batch) {
    if (!last_) add(ActionKind::receive_backward, micro_batch);
    add(ActionKind::backward, micro_batch);
    if (!first_) add(ActionKind::send_backward, micro_batch);
  }
  std::vector<Action> take() && { return std::move(actions_); }

 private:
  void add(ActionKind kind, int64_t micro_batch) { actions_.push_back({kind, micro_batch, micro_batch % slots_}); }

  bool first_, last_;
  int64_t slots_;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> make_schedule(ScheduleKind kind, int64_t stages, int64_t micro_batches, int64_t stage) {
  CHECK(stage >= 0 && stage < stages && micro_batches > 0);
  // Forward passes before the first backward: as many as it takes until the last stage could have sent one back.
  const int64_t warm_up = kind == ScheduleKind::forward_only ? 0 : std::min(stages - stage - 1, micro_batches);
  ScheduleBuilder builder(stages, stage, warm_up + 1);
  if (kind == ScheduleKind::forward_only) {
    for (int64_t i = 0; i < micro_batches; ++i) builder.forward(ActionKind::forward_only, i);
    return std::move(builder).take();
  }
  for (int64_t i = 0; i < warm_up; ++i) builder.forward(ActionKind::forward, i);
  for (int64_t i = warm_up; i < micro_batches; ++i) {
    builder.forward(ActionKind::forward, i);
    builder.backward(i - warm_up);
  }
  for (int64_t i = micro_batches - warm_up; i < micro_batches; ++i) builder.backward(i);
  return std::move(builder).take();
}

int64_t slots_needed(const std::vector<Action>& schedule) {
  int64_t slots = 1;
  for (const Action& action : schedule) slots = std::max(slots, action.slot + 1);
  return slots;
}

}  // namespace trireme

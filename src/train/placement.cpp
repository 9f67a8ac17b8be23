#include "train/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "tensor/arena.h"

namespace trireme {
namespace {

int64_t aligned(int64_t bytes) { return round_up(bytes, Arena::kAlignment); }

constexpr int64_t kAlways = std::numeric_limits<int64_t>::max();

// The ring of a tensor that is taken in one action and last used in another.
SlotRing ring_of(ActionKind taken_in, ActionKind last_used_in) {
  if (last_used_in != ActionKind::backward_weight) return SlotRing::saved;
  return taken_in == ActionKind::backward_input ? SlotRing::gradients : SlotRing::inputs;
}

int order_of(ActionKind kind) {
  return kind == ActionKind::backward_weight ? 2 : kind == ActionKind::backward || kind == ActionKind::backward_input ? 1 : 0;
}

// A tensor that crosses actions.
struct Crossing {
  ActionKind last_used_in = ActionKind::backward;
  SlotRing ring = SlotRing::saved;
  int64_t offset = 0, bytes = 0;
};
using Crossings = std::map<TensorKey, Crossing>;  // of one chunk

Crossings find_crossings(const std::vector<RecordedAction>& actions, int64_t chunk) {
  Crossings crossings;
  for (const RecordedAction& action : actions) {
    if (action.chunk != chunk) continue;
    for (const ActionTrace& trace : action.traces)
      for (const Lifetime& lifetime : trace.lifetimes) {
        if (lifetime.key.taken_in == action.kind) continue;
        Crossing& crossing = crossings.try_emplace(lifetime.key, Crossing{.last_used_in = action.kind}).first->second;
        if (order_of(action.kind) > order_of(crossing.last_used_in)) crossing.last_used_in = action.kind;
      }
  }
  return crossings;
}

const RecordedAction& action_of(const std::vector<RecordedAction>& actions, ActionKind kind, int64_t chunk) {
  for (const RecordedAction& action : actions)
    if (action.kind == kind && action.chunk == chunk) return action;
  CHECK_NEVER("an action that was not recorded");
}

struct Interval {
  int64_t begin = 0, end = 0;
};

// Packs the tensors of one action.
class Packing {
 public:
  Packing(const RecordedAction& action, const Crossings& crossings, const StepPlan& plan, const ScratchPeaks& scratch);

  enum class Order : uint8_t { largest_first, longest_first };
  enum class Fit : uint8_t { lowest, tightest };
  struct Result {
    std::vector<TensorPlace> places;  // by number
    int64_t end = 0;                  // of the block
  };
  Result pack(Order order, Fit fit) const;

 private:
  // Lifetimes in each trace: empty where the trace does not use the tensor.
  using Times = std::vector<Interval>;
  struct Item {
    size_t number = 0;
    int64_t bytes = 0;
    Times times;
    int64_t scratch = 0;           // the most that ops work in while it is in use
    std::vector<size_t> in_place;  // tensors that it may share memory with, because one is written where the other was read
  };
  struct Fixed {
    TensorPlace place;
    int64_t bytes = 0;
    Times times;
  };

  Times times_of(const TensorKey& key) const;
  void add_crossings(const Crossings& crossings);
  void add_in_place();
  static bool overlap(const Times& a, const Times& b);
  bool is_usable(SlotRing ring) const;
  // The occupied ranges of a ring's slot, or of the block, while `item` is in use.
  std::vector<Interval> occupied(const Item& item, SlotRing ring, const Result& so_far, std::optional<size_t> without = {}) const;
  TensorPlace find_place(const Item& item, const Result& so_far, Fit fit) const;
  std::optional<TensorPlace> place_in_place(const Item& item, const Result& so_far) const;
  int64_t begin_of_block() const { return action_.kind == ActionKind::forward_only ? 0 : plan_.kept; }
  int64_t ring_bytes(SlotRing ring) const { return plan_.rings[static_cast<size_t>(ring)].bytes; }
  const TensorPlace& place_at(size_t index, const Result& so_far) const {
    return index < items_.size() ? so_far.places[items_[index].number] : fixed_[index - items_.size()].place;
  }
  int64_t bytes_at(size_t index) const {
    return index < items_.size() ? items_[index].bytes : fixed_[index - items_.size()].bytes;
  }

  const RecordedAction& action_;
  const StepPlan& plan_;
  const ScratchPeaks& scratch_;
  std::vector<Item> items_;            // tensors to be packed
  std::vector<Fixed> fixed_;           // those of the action's own slots
  std::map<TensorKey, size_t> index_;  // in items_, or after them in fixed_
};

Packing::Packing(const RecordedAction& action, const Crossings& crossings, const StepPlan& plan, const ScratchPeaks& scratch)
    : action_(action), plan_(plan), scratch_(scratch) {
  for (size_t number = 0; number < action.taken.size(); ++number) {
    const TensorKey key{action.kind, number};
    if (crossings.contains(key)) continue;
    Item item{
        .number = number, .bytes = aligned(action.taken[number].bytes()), .times = times_of(key), .scratch = 0, .in_place = {}};
    if (std::ranges::all_of(item.times, [](const Interval& range) { return range.begin > range.end; }))
      continue;  // no op uses it
    for (size_t t = 0; t < action.traces.size(); ++t)
      for (const ScratchUse& use : action.traces[t].scratch)
        if (use.at >= item.times[t].begin && use.at <= item.times[t].end) item.scratch = std::max(item.scratch, use.bytes);
    index_[key] = items_.size();
    items_.push_back(std::move(item));
  }
  add_crossings(crossings);
  add_in_place();
}

// A crossing tensor holds its place from its first use in the action that takes it to its last use in the last action.
void Packing::add_crossings(const Crossings& crossings) {
  if (action_.kind == ActionKind::forward_only) return;
  for (const auto& [key, crossing] : crossings) {
    if (!is_usable(crossing.ring)) continue;
    Times times = times_of(key);
    for (Interval& range : times) {
      if (range.begin > range.end) range = {0, kAlways};  // used before and after this action, or in other micro-batches
      if (key.taken_in != action_.kind) range.begin = 0;
      if (crossing.last_used_in != action_.kind) range.end = kAlways;
    }
    index_[key] = items_.size() + fixed_.size();
    fixed_.push_back({.place = {crossing.ring, crossing.offset}, .bytes = crossing.bytes, .times = std::move(times)});
  }
}

// Where in every trace the one is first used by the op that uses the other for the last time.
void Packing::add_in_place() {
  const auto times = [&](size_t index) -> const Times& {
    return index < items_.size() ? items_[index].times : fixed_[index - items_.size()].times;
  };
  for (const InPlace& pair : action_.traces.front().in_place) {
    const auto out = index_.find(pair.out), in = index_.find(pair.in);
    if (out == index_.end() || in == index_.end()) continue;
    const Times &a = times(out->second), &b = times(in->second);
    bool meets = true;
    for (size_t t = 0; t < a.size(); ++t) meets = meets && a[t].begin == b[t].end && b[t].begin <= b[t].end;
    if (!meets) continue;
    if (out->second < items_.size()) items_[out->second].in_place.push_back(in->second);
    if (in->second < items_.size()) items_[in->second].in_place.push_back(out->second);
  }
}

Packing::Times Packing::times_of(const TensorKey& key) const {
  Times times;
  for (const ActionTrace& trace : action_.traces) {
    const auto at = std::ranges::lower_bound(trace.lifetimes, key, {}, &Lifetime::key);
    const bool used = at != trace.lifetimes.end() && at->key == key;
    times.push_back(used ? Interval{at->begin, at->end} : Interval{0, -1});
  }
  return times;
}

bool Packing::overlap(const Times& a, const Times& b) {
  for (size_t t = 0; t < a.size(); ++t)
    if (a[t].begin <= a[t].end && b[t].begin <= b[t].end && a[t].begin <= b[t].end && b[t].begin <= a[t].end) return true;
  return false;
}

// Slots that belong to the micro-batch of the action.
bool Packing::is_usable(SlotRing ring) const {
  switch (action_.kind) {
    case ActionKind::forward:
      return ring == SlotRing::saved || ring == SlotRing::inputs;
    case ActionKind::backward:
      return ring == SlotRing::saved;
    case ActionKind::backward_input:
      return true;
    case ActionKind::backward_weight:
      return ring == SlotRing::inputs || ring == SlotRing::gradients;
    default:
      return false;
  }
}

std::vector<Interval> Packing::occupied(const Item& item, SlotRing ring, const Result& so_far,
                                        std::optional<size_t> without) const {
  std::vector<Interval> ranges;
  const auto add = [&](const TensorPlace& place, int64_t bytes, const Times& times) {
    if (place.ring == ring && place.offset != TensorPlace::kNowhere && overlap(item.times, times))
      ranges.push_back({place.offset, place.offset + bytes});
  };
  for (size_t i = 0; i < items_.size(); ++i)
    if (i != without) add(so_far.places[items_[i].number], items_[i].bytes, items_[i].times);
  for (size_t i = 0; i < fixed_.size(); ++i)
    if (items_.size() + i != without) add(fixed_[i].place, fixed_[i].bytes, fixed_[i].times);
  if (ring == SlotRing::none) {
    if (item.scratch > 0) ranges.push_back({plan_.kept, plan_.kept + aligned(item.scratch)});
    const bool has_wgrad = action_.kind == ActionKind::backward && scratch_.wgrad > 0;
    if (has_wgrad) ranges.push_back({plan_.wgrad_scratch, plan_.wgrad_scratch + aligned(scratch_.wgrad)});
  }
  std::ranges::sort(ranges, {}, &Interval::begin);
  return ranges;
}

std::optional<TensorPlace> Packing::place_in_place(const Item& item, const Result& so_far) const {
  for (const size_t other : item.in_place) {
    const TensorPlace& place = place_at(other, so_far);
    if (place.offset == TensorPlace::kNowhere || item.bytes > bytes_at(other)) continue;
    const std::vector<Interval> ranges = occupied(item, place.ring, so_far, other);
    if (std::ranges::none_of(ranges,
                             [&](const Interval& r) { return r.begin < place.offset + item.bytes && place.offset < r.end; }))
      return place;
  }
  return std::nullopt;
}

TensorPlace Packing::find_place(const Item& item, const Result& so_far, Fit fit) const {
  if (const std::optional<TensorPlace> place = place_in_place(item, so_far)) return *place;
  for (const SlotRing ring : {SlotRing::saved, SlotRing::inputs, SlotRing::gradients, SlotRing::none}) {
    if (ring != SlotRing::none && !is_usable(ring)) continue;
    const int64_t end = ring == SlotRing::none ? kAlways : ring_bytes(ring);
    int64_t at = ring == SlotRing::none ? begin_of_block() : 0, best = TensorPlace::kNowhere, best_gap = kAlways;
    const auto try_gap = [&](int64_t gap_end) {
      const int64_t gap = gap_end - at;
      if (gap < item.bytes || (best != TensorPlace::kNowhere && (fit == Fit::lowest || gap >= best_gap))) return;
      best = at, best_gap = gap;
    };
    for (const Interval& range : occupied(item, ring, so_far)) {
      try_gap(range.begin);
      at = std::max(at, range.end);
    }
    try_gap(end);
    if (best != TensorPlace::kNowhere) return {ring, best};
  }
  CHECK_NEVER("the block has no end");
}

Packing::Result Packing::pack(Order order, Fit fit) const {
  std::vector<size_t> sequence(items_.size());
  std::iota(sequence.begin(), sequence.end(), size_t{0});
  const auto weight = [&](const Item& item) {
    int64_t length = 0;
    for (const Interval& range : item.times) length = std::max(length, range.end - range.begin);
    return order == Order::largest_first ? std::pair(item.bytes, length) : std::pair(length, item.bytes);
  };
  std::ranges::stable_sort(sequence, [&](size_t a, size_t b) { return weight(items_[a]) > weight(items_[b]); });
  Result result{.places = std::vector<TensorPlace>(action_.taken.size()), .end = plan_.kept + aligned(scratch_.compute)};
  if (scratch_.wgrad > 0) result.end = plan_.wgrad_scratch + aligned(scratch_.wgrad);
  for (const size_t index : sequence) {
    const Item& item = items_[index];
    const TensorPlace place = find_place(item, result, fit);
    result.places[item.number] = place;
    if (place.ring == SlotRing::none) result.end = std::max(result.end, place.offset + item.bytes);
  }
  return result;
}

// Slots of all rings, with the crossing tensors of a chunk one after the other.
void lay_out_rings(const std::vector<RecordedAction>& actions, const Slots& slots, std::map<int64_t, Crossings>& crossings,
                   StepPlan& plan) {
  for (auto& [chunk, own] : crossings) {
    std::array<int64_t, kRings> bytes{};
    for (auto& [key, crossing] : own) {
      const RecordedAction& action = action_of(actions, key.taken_in, chunk);
      crossing.ring = ring_of(key.taken_in, crossing.last_used_in);
      crossing.bytes = aligned(action.taken[key.number].bytes());
      int64_t& end = bytes[static_cast<size_t>(crossing.ring)];
      crossing.offset = end;
      end += crossing.bytes;
    }
    for (size_t ring = 0; ring < kRings; ++ring) plan.rings[ring].bytes = std::max(plan.rings[ring].bytes, bytes[ring]);
  }
  for (const SlotRing ring : {SlotRing::saved, SlotRing::inputs, SlotRing::gradients}) {
    RingPlan& each = plan.rings[static_cast<size_t>(ring)];
    each.slots = slot_in(slots, ring);
    each.offset = plan.kept;
    plan.kept += each.slots * each.bytes;
  }
}

}  // namespace

StepPlan place_tensors(const std::vector<RecordedAction>& actions, const Slots& slots, const ScratchPeaks& scratch) {
  StepPlan plan;
  std::map<int64_t, Crossings> crossings;  // by chunk
  for (const RecordedAction& action : actions)
    if (!crossings.contains(action.chunk)) crossings[action.chunk] = find_crossings(actions, action.chunk);
  lay_out_rings(actions, slots, crossings, plan);
  plan.wgrad_scratch = plan.kept + aligned(scratch.compute);
  plan.bytes = plan.wgrad_scratch + aligned(scratch.wgrad);
  for (const RecordedAction& action : actions) {
    const Crossings& own = crossings.at(action.chunk);
    const Packing packing(action, own, plan, scratch);
    Packing::Result best{.places = {}, .end = kAlways};
    for (const auto order : {Packing::Order::largest_first, Packing::Order::longest_first})
      for (const auto fit : {Packing::Fit::lowest, Packing::Fit::tightest})
        if (Packing::Result result = packing.pack(order, fit); result.end < best.end) best = std::move(result);
    plan.bytes = std::max(plan.bytes, best.end);
    PlannedAction& planned = plan.actions.emplace_back(PlannedAction{.kind = action.kind, .chunk = action.chunk, .tensors = {}});
    for (size_t number = 0; number < action.taken.size(); ++number) {
      const auto at = own.find({action.kind, number});
      if (at == own.end()) {
        planned.tensors.push_back({action.taken[number], best.places[number]});
      } else {
        const Crossing& crossing = at->second;
        planned.tensors.push_back({action.taken[number], {crossing.ring, crossing.offset}, crossing.last_used_in});
      }
    }
  }
  return plan;
}

const PlannedAction& StepPlan::action(ActionKind kind, int64_t chunk) const {
  for (const PlannedAction& action : actions)
    if (action.kind == kind && action.chunk == chunk) return action;
  CHECK_NEVER("an action that was not recorded");
}

int64_t StepPlan::address(const TensorPlace& place, const Slots& slots) const {
  if (place.ring == SlotRing::none) return place.offset;
  const RingPlan& ring = rings[static_cast<size_t>(place.ring)];
  const int64_t slot = slot_in(slots, place.ring);
  CHECK(slot < ring.slots);
  return ring.offset + slot * ring.bytes + place.offset;
}

void PlannedMemory::begin(const Action& action) {
  action_ = &plan_.action(action.kind, action.chunk);
  slots_ = action.slots;
  next_ = 0;
}

Tensor PlannedMemory::take(const char* name, const Shape& shape, DType dtype) {
  CHECK(action_ != nullptr && next_ < action_->tensors.size());
  const PlannedTensor& planned = action_->tensors[next_++];
  CHECK(planned.tensor == (TakenTensor{name, shape, dtype}));  // the plan is of another step
  Tensor tensor{.data = nullptr, .dtype = dtype, .shape = shape, .device = block_.device};
  if (planned.place.offset != TensorPlace::kNowhere)
    tensor.data = static_cast<char*>(block_.data) + plan_.address(planned.place, slots_);
  return tensor;
}

}  // namespace trireme

#include "train/memory_profile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace trireme {
namespace {

// How the bytes in use change while an action runs, given those that are in use when it begins.
class ActionCourse {
 public:
  ActionCourse(const RecordedAction& recorded, const StepPlan& plan) : recorded_(recorded), plan_(plan) {
    const ActionTrace& trace = recorded.traces.front();
    int64_t length = 1;
    for (const Lifetime& each : trace.lifetimes) length = std::max(length, each.end + 2);
    for (const ScratchUse& each : trace.scratch) length = std::max(length, each.at + 2);
    bytes_.assign(static_cast<size_t>(length), 0);
    for (const Lifetime& each : trace.lifetimes) add(each);
    for (const ScratchUse& each : trace.scratch) change(each.at, each.bytes), change(each.at + 1, -each.bytes);
    for (size_t i = 1; i < bytes_.size(); ++i) bytes_[i] += bytes_[i - 1];
  }

  const std::vector<int64_t>& bytes() const { return bytes_; }  // by time, relative to the beginning
  int64_t left() const { return left_; }                        // at the end

  // Calls visit(tensor) for those of this micro-batch that are in use at a time.
  template <class Visit>
  void for_each_at(int64_t time, const Visit& visit) const {
    for (const Lifetime& each : recorded_.traces.front().lifetimes) {
      const PlannedTensor& tensor = tensor_of(each.key);
      const bool begun = crosses_in(each.key) || each.begin <= time, ended = !crosses_out(tensor) && each.end < time;
      if (begun && !ended) visit(each.key, tensor.tensor);
    }
    for (const ScratchUse& each : recorded_.traces.front().scratch)
      if (each.at == time) visit(TensorKey{}, TakenTensor{"scratch of ops", {each.bytes}, DType::u8});
  }
  bool crosses_in(const TensorKey& key) const { return key.taken_in != recorded_.kind; }
  bool crosses_out(const PlannedTensor& tensor) const { return tensor.crosses_to && *tensor.crosses_to != recorded_.kind; }
  const PlannedTensor& tensor_of(const TensorKey& key) const {
    return plan_.action(key.taken_in, recorded_.chunk).tensors[key.number];
  }
  const RecordedAction& recorded() const { return recorded_; }

 private:
  void add(const Lifetime& lifetime) {
    const PlannedTensor& tensor = tensor_of(lifetime.key);
    const int64_t bytes = tensor.tensor.bytes();
    if (!crosses_in(lifetime.key)) change(lifetime.begin, bytes), left_ += bytes;
    if (!crosses_out(tensor)) change(lifetime.end + 1, -bytes), left_ -= bytes;
  }
  void change(int64_t time, int64_t bytes) { bytes_[static_cast<size_t>(time)] += bytes; }

  const RecordedAction& recorded_;
  const StepPlan& plan_;
  std::vector<int64_t> bytes_;
  int64_t left_ = 0;
};

class Course {
 public:
  explicit Course(const MemoryPlan& plan) : plan_(plan), actions_(plan.schedule) {
    for (const RecordedAction& each : plan.recorded) courses_.try_emplace({each.kind, each.chunk}, ActionCourse(each, plan.step));
    for (const auto& [label, bytes] : plan.rows())
      if (label != "activations" && label != "scratch") throughout_ += bytes;
    throughout_ += plan.arenas.activations.peak() + plan.arenas.scratch.peak();
  }

  MemoryProfile profile() const {
    MemoryProfile profile;
    int64_t length = 0, time = 0, held = throughout_;
    for (const Action& action : actions_) length += std::ssize(course(action).bytes());
    const int64_t columns = std::min(MemoryProfile::kColumns, length);
    profile.over_step.assign(static_cast<size_t>(columns), 0);
    size_t peak_action = 0;
    int64_t peak_time = 0;
    for (size_t i = 0; i < actions_.size(); ++i) {
      const ActionCourse& each = course(actions_[i]);
      for (size_t t = 0; t < each.bytes().size(); ++t, ++time) {
        const int64_t now = held + each.bytes()[t];
        int64_t& column = profile.over_step[static_cast<size_t>(time * columns / length)];
        column = std::max(column, now);
        if (now > profile.peak) profile.peak = now, peak_action = i, peak_time = static_cast<int64_t>(t);
      }
      held += each.left();
    }
    const Action& at = actions_[peak_action];
    profile.peak_at = fmt::format("{} of micro-batch {}", name_of(at.kind), at.micro_batch);
    profile.at_peak = alive(peak_action, peak_time);
    return profile;
  }

 private:
  const ActionCourse& course(const Action& action) const { return courses_.at({action.kind, action.chunk}); }

  std::vector<MemoryProfile::Alive> alive(size_t peak_action, int64_t time) const {
    std::map<std::string, MemoryProfile::Alive> by_name;
    const auto add = [&](const std::string& name, int64_t bytes) {
      MemoryProfile::Alive& each = by_name.try_emplace(name, MemoryProfile::Alive{name, 0, 0}).first->second;
      each.count += 1;
      each.bytes += bytes;
    };
    for (const auto& [label, bytes] : plan_.rows())
      if (bytes > 0 && label != "activations" && label != "scratch") add(label, bytes);
    // What other micro-batches hold between two of their actions.
    std::map<std::tuple<int64_t, int64_t, TensorKey>, TakenTensor> held;  // by micro-batch, chunk and key
    for (size_t i = 0; i < peak_action; ++i) {
      const ActionCourse& each = course(actions_[i]);
      for (const Lifetime& lifetime : each.recorded().traces.front().lifetimes) {
        const std::tuple key(actions_[i].micro_batch, actions_[i].chunk, lifetime.key);
        const PlannedTensor& tensor = each.tensor_of(lifetime.key);
        if (each.crosses_out(tensor))
          held.emplace(key, tensor.tensor);
        else
          held.erase(key);
      }
    }
    const Action& peak = actions_[peak_action];
    std::erase_if(held, [&](const auto& entry) {
      return std::get<0>(entry.first) == peak.micro_batch && std::get<1>(entry.first) == peak.chunk &&
             uses(course(peak).recorded(), std::get<2>(entry.first));
    });
    for (const auto& [key, tensor] : held) add(tensor.name, tensor.bytes());
    course(peak).for_each_at(time, [&](const TensorKey&, const TakenTensor& tensor) { add(tensor.name, tensor.bytes()); });
    std::vector<MemoryProfile::Alive> all;
    for (auto& [name, each] : by_name) all.push_back(std::move(each));
    std::ranges::stable_sort(all, std::greater{}, &MemoryProfile::Alive::bytes);
    return all;
  }
  static bool uses(const RecordedAction& action, const TensorKey& key) {
    return std::ranges::binary_search(action.traces.front().lifetimes, key, {}, &Lifetime::key);
  }

  const MemoryPlan& plan_;
  const std::vector<Action>& actions_;
  std::map<std::pair<ActionKind, int64_t>, ActionCourse> courses_;
  int64_t throughout_ = 0;  // in use during the whole step
};

// The most of each of `columns` parts as one of eight heights above the lowest value.
std::string sparkline(const std::vector<int64_t>& values, size_t columns) {
  static constexpr const char* kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto [low, high] = std::ranges::minmax(values);
  std::string text;
  columns = std::min(columns, values.size());
  for (size_t i = 0; i < columns; ++i) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(i * values.size() / columns);
    const auto end = values.begin() + static_cast<ptrdiff_t>((i + 1) * values.size() / columns);
    const int64_t most = *std::max_element(begin, end);
    text +=
        kHeights[high == low ? 0 : static_cast<size_t>(7.0 * static_cast<double>(most - low) / static_cast<double>(high - low))];
  }
  return text;
}

}  // namespace

MemoryProfile profile_memory(const MemoryPlan& plan) { return Course(plan).profile(); }

std::string text_of(const MemoryProfile& profile) {
  constexpr size_t kColumns = 60, kNames = 8;
  std::vector<std::string> parts;
  int64_t rest = 0;
  for (size_t i = 0; i < profile.at_peak.size(); ++i) {
    const MemoryProfile::Alive& each = profile.at_peak[i];
    if (i >= kNames)
      rest += each.bytes;
    else
      parts.push_back(
          fmt::format("{}{} {}", each.count > 1 ? fmt::format("{} ", each.count) : "", each.name, format_bytes(each.bytes)));
  }
  if (rest > 0) parts.push_back(fmt::format("others {}", format_bytes(rest)));
  return fmt::format("in use  {}\npeak    {} in {}: {}", sparkline(profile.over_step, kColumns), format_bytes(profile.peak),
                     profile.peak_at, fmt::join(parts, ", "));
}

nlohmann::ordered_json json_of(const MemoryProfile& profile) {
  nlohmann::ordered_json at_peak = nlohmann::ordered_json::array();
  for (const MemoryProfile::Alive& each : profile.at_peak)
    at_peak.push_back({{"name", each.name}, {"count", each.count}, {"bytes", each.bytes}});
  return {{"peak", profile.peak}, {"peak_at", profile.peak_at}, {"at_peak", at_peak}, {"over_step", profile.over_step}};
}

}  // namespace trireme

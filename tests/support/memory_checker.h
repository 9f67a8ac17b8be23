// Executes a recorded step with the planned addresses and checks every access: a call reads what was written under the same name
// and nothing that was written over since, after the write is known to be done; it writes only where everything that was done
// before is known to be done. "Known" means by the order of one stream or by events.
//
// It shares nothing with the placement but the plan: lifetimes play no part here.
#pragma once

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "train/placement.h"

namespace trireme {

class MemoryChecker final : public StepMemory, public StepWatcher {
 public:
  // Waits for events of the name `without` are left out.
  explicit MemoryChecker(const StepPlan& plan, std::string without = "") : plan_(plan), without_(std::move(without)) {}

  void begin(const Action& action) override {
    flush();
    action_ = action;
    next_ = 0;
  }

  Tensor take(const char* name, const Shape& shape, DType dtype) override {
    const PlannedTensor& planned = plan_.action(action_.kind, action_.chunk).tensors.at(next_++);
    const int64_t address =
        planned.place.offset == TensorPlace::kNowhere ? TensorPlace::kNowhere : plan_.address(planned.place, action_.slots);
    tensors_.push_back({name, address});
    return {
        .data = reinterpret_cast<void*>(tensors_.size() << kOffsetBits), .dtype = dtype, .shape = shape, .device = Device::none};
  }

  void begin_call(Stream stream, int64_t scratch_bytes) override {
    flush();
    stream_ = stream;
    calls_[stream.number()] += 1;
    const int64_t scratch = stream == kWgrad ? plan_.wgrad_scratch : plan_.kept;
    if (scratch_bytes > 0) writes_.push_back({kScratch, scratch, scratch + scratch_bytes});
  }

  void access(const Tensor& tensor, Access access) override {
    if (!tensor || tensor.data == nullptr) return;
    const auto bits = reinterpret_cast<uintptr_t>(tensor.data);
    const size_t number = (bits >> kOffsetBits) - 1;
    const int64_t offset = static_cast<int64_t>(bits & ((uintptr_t{1} << kOffsetBits) - 1));
    if (tensors_[number].address == TensorPlace::kNowhere) return fail("{} is used and has no memory", tensors_[number].name);
    const int64_t begin = tensors_[number].address + offset;
    const Use use{static_cast<int64_t>(number), begin, begin + tensor.bytes()};
    if (use.end > plan_.bytes) fail("{} is outside of the block", tensors_[number].name);
    if (access == Access::read || access == Access::updated) reads_.push_back(use);
    if (access != Access::read) writes_.push_back(use);
  }

  void in_place(const Tensor& out, const Tensor& in) override {
    const auto number = [](const Tensor& tensor) {
      return static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data) >> kOffsetBits) - 1;
    };
    if (out && in && out.data != nullptr && in.data != nullptr) in_place_.insert({number(out), number(in)});
  }

  uint64_t record(Stream stream, const char* name) override {
    flush();
    Clock& clock = events_.emplace_back(Event{name, known_[stream.number()]}).clock;
    clock[stream.number()] = calls_[stream.number()];
    return events_.size();
  }

  void wait(Stream stream, uint64_t ticket) override {
    flush();
    if (ticket == 0 || events_[ticket - 1].name == without_) return;
    Clock& known = known_[stream.number()];
    for (size_t i = 0; i < kStreams; ++i) known[i] = std::max(known[i], events_[ticket - 1].clock[i]);
  }

  // What is wrong, the first few.
  const std::vector<std::string>& failures() {
    flush();
    return failures_;
  }
  int64_t calls_on(Stream stream) const { return calls_[stream.number()]; }

 private:
  static constexpr int kOffsetBits = 40;
  static constexpr int64_t kScratch = -1, kNobody = -2;
  using Clock = std::array<int64_t, kStreams>;
  struct Taken {
    const char* name;
    int64_t address;
  };
  struct Use {
    int64_t tensor;
    int64_t begin, end;  // in the block
  };
  struct Event {
    std::string name;
    Clock clock;
  };
  // A stretch of the block with one history.
  struct Stretch {
    int64_t writer = kNobody;  // a tensor
    size_t writer_stream = 0;
    int64_t writer_call = 0;
    Clock read{};  // the last call of each stream that read it
  };

  template <class... Parts>
  void fail(fmt::format_string<Parts...> text, Parts&&... parts) {
    if (failures_.size() < 5) failures_.push_back(fmt::format(text, std::forward<Parts>(parts)...));
  }
  const char* name_of(int64_t tensor) const {
    return tensor == kScratch ? "scratch" : tensor == kNobody ? "nothing" : tensors_[static_cast<size_t>(tensor)].name;
  }

  // Calls visit for the stretches of a range, which are cut at its ends.
  template <class Visit>
  void for_each(const Use& use, const Visit& visit) {
    for (const int64_t at : {use.begin, use.end}) {
      const auto after = memory_.upper_bound(at);
      memory_.try_emplace(at, after == memory_.begin() ? Stretch{} : std::prev(after)->second);
    }
    for (auto at = memory_.find(use.begin); at->first != use.end; ++at) visit(at->second);
  }

  // A call reads before it writes.
  void flush() {
    const size_t here = stream_.number();
    for (const Use& read : reads_)
      for_each(read, [&](Stretch& stretch) {
        if (stretch.writer != read.tensor) fail("{} is read where {} was written", name_of(read.tensor), name_of(stretch.writer));
        if (!is_done(stretch.writer_stream, stretch.writer_call)) fail("{} is read while it is written", name_of(read.tensor));
        stretch.read[here] = calls_[here];
      });
    for (const Use& write : writes_) {
      check_operands(write);
      for_each(write, [&](Stretch& stretch) {
        if (!is_done(stretch.writer_stream, stretch.writer_call))
          fail("{} is written while {} is written", name_of(write.tensor), name_of(stretch.writer));
        for (size_t stream = 0; stream < kStreams; ++stream)
          if (!is_done(stream, stretch.read[stream]))
            fail("{} is written while {} is read", name_of(write.tensor), name_of(stretch.writer));
        stretch = {.writer = write.tensor, .writer_stream = here, .writer_call = calls_[here], .read = {}};
      });
    }
    reads_.clear(), writes_.clear(), in_place_.clear();
  }

  // Operands of one call share memory only where the op permits it.
  void check_operands(const Use& write) {
    const auto overlaps = [&](const Use& other) { return write.begin < other.end && other.begin < write.end; };
    for (const Use& read : reads_)
      if (read.tensor != write.tensor && overlaps(read) &&
          !(in_place_.contains({write.tensor, read.tensor}) && read.begin == write.begin))
        fail("{} is written over {}, which the same call reads", name_of(write.tensor), name_of(read.tensor));
    for (const Use& other : writes_)
      if (other.tensor != write.tensor && overlaps(other) && !in_place_.contains({write.tensor, other.tensor}) &&
          !in_place_.contains({other.tensor, write.tensor}))
        fail("{} and {} are written to one place by one call", name_of(write.tensor), name_of(other.tensor));
  }

  bool is_done(size_t stream, int64_t call) const {
    const size_t here = stream_.number();
    return stream == here ? call <= calls_[here] : call <= known_[here][stream];
  }

  const StepPlan& plan_;
  std::string without_;
  Action action_;
  size_t next_ = 0;
  std::vector<Taken> tensors_;
  Stream stream_;
  std::vector<Use> reads_, writes_;
  std::set<std::pair<int64_t, int64_t>> in_place_;
  Clock calls_{};
  std::array<Clock, kStreams> known_{};
  std::vector<Event> events_;
  std::map<int64_t, Stretch> memory_;
  std::vector<std::string> failures_;
};

}  // namespace trireme

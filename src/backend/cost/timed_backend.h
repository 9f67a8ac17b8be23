// Runs every op on another backend and, while a trace is on, notes when it began and ended. A profiler sees each op's name.
#pragma once

#include "backend/cost/cost_backend.h"
#include "backend/forwarding_backend.h"
#include "backend/op_trace.h"

namespace trireme {

class TimedBackend final : public ForwardingBackend {
 public:
  TimedBackend(Backend& inner, OpTrace& trace) : ForwardingBackend(inner), trace_(trace) {}

#define TRIREME_TIME_OP(Op) \
  void run(Stream stream, const Op& op) override { time(stream, op); }
  TRIREME_OPS(TRIREME_TIME_OP)
#undef TRIREME_TIME_OP

  // What is launched as one cannot be timed or named op by op.
  void repeat(Stream stream, const WorkKey& key, const std::function<void()>& enqueue) override {
    if (trace_.tracing() == Tracing::off)
      inner_.repeat(stream, key, enqueue);
    else
      enqueue();
  }
  void begin_range(const char* name, std::optional<int64_t> number) override {
    inner_.begin_range(name, number);
    if (trace_.tracing() != Tracing::times) return;
    ranges_.push_back(&trace_.add({.kind = TracedCall::Kind::range, .name = name, .stream = kCompute, .number = number}));
    inner_.note_time(kCompute, &ranges_.back()->begin);
  }
  void end_range() override {
    inner_.end_range();
    if (trace_.tracing() != Tracing::times) return;
    inner_.note_time(kCompute, &ranges_.back()->end);
    ranges_.pop_back();
  }

 private:
  template <class Op>
  void time(Stream stream, const Op& op) {
    if (trace_.tracing() == Tracing::off) return inner_.run(stream, op);
    const NamedRange range(inner_, Op::kName);
    if (trace_.tracing() == Tracing::names) return inner_.run(stream, op);
    ByteCounter bytes;
    op.visit(bytes);
    TracedCall& call = trace_.add(
        {.name = Op::kName, .stream = stream, .flops = flops_of(op), .bytes = static_cast<double>(bytes.read + bytes.written)});
    inner_.note_time(stream, &call.begin);
    inner_.run(stream, op);
    inner_.note_time(stream, &call.end);
  }

  OpTrace& trace_;
  std::vector<TracedCall*> ranges_;  // that have begun
};

}  // namespace trireme

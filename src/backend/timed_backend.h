// Runs every op on another backend and, while a trace is on, notes when it began and ended. A profiler sees each op's name.
#pragma once

#include "backend/cost/cost_backend.h"
#include "backend/op_trace.h"

namespace trireme {

class TimedBackend final : public Backend {
 public:
  TimedBackend(Backend& inner, OpTrace& trace) : inner_(inner), trace_(trace) {}

#define TRIREME_TIME_OP(Op)                                            \
  void run(Stream stream, const Op& op) override { time(stream, op); } \
  int64_t scratch_bytes(const Op& op) const override { return inner_.scratch_bytes(op); }
  TRIREME_OPS(TRIREME_TIME_OP)
#undef TRIREME_TIME_OP

  void set_scratch(Stream stream, Tensor scratch) override { inner_.set_scratch(stream, scratch); }
  // What is launched as one cannot be timed or named op by op.
  void repeat(Stream stream, uint64_t key, const std::function<void()>& enqueue) override {
    if (trace_.tracing() == Tracing::off)
      inner_.repeat(stream, key, enqueue);
    else
      enqueue();
  }
  void tune_repeated_work() override { inner_.tune_repeated_work(); }
  void note_time(Stream stream, double* seconds) override { inner_.note_time(stream, seconds); }
  void read_times() override { inner_.read_times(); }
  void collect_times() override { inner_.collect_times(); }
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
  void set_profiling(Profiling profiling) override { inner_.set_profiling(profiling); }
  Event record(Stream stream, const char* name) override { return inner_.record(stream, name); }
  void wait(Stream stream, const Event& event) override { inner_.wait(stream, event); }
  void synchronize(const Event& event) override { inner_.synchronize(event); }
  Memory allocate(int64_t bytes) override { return inner_.allocate(bytes); }
  Memory allocate_host(int64_t bytes) override { return inner_.allocate_host(bytes); }
  void upload(Stream stream, const void* from, Tensor to) override { inner_.upload(stream, from, to); }
  void download(Stream stream, Tensor from, void* to) override { inner_.download(stream, from, to); }
  bool runs_ahead() const override { return inner_.runs_ahead(); }
  int64_t full_speed_rows() const override { return inner_.full_speed_rows(); }
  bool has_room_beside(int64_t rows, int64_t columns) const override { return inner_.has_room_beside(rows, columns); }
  double measure_peak_tflops(DType dtype) override { return inner_.measure_peak_tflops(dtype); }
  bool has_fp8() const override { return inner_.has_fp8(); }
  std::optional<DeviceMemory> device_memory() const override { return inner_.device_memory(); }
  std::string device_name() const override { return inner_.device_name(); }
  std::string description() const override { return inner_.description(); }

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

  Backend& inner_;
  OpTrace& trace_;
  std::vector<TracedCall*> ranges_;  // that have begun
};

}  // namespace trireme

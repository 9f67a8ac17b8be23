// Runs every op on another backend and adds up, per op, its calls, time, FLOPs and bytes: where the time of a run goes.
#pragma once

#include <array>
#include <string>

#include "backend/cost/cost_backend.h"
#include "base/clock.h"

namespace trireme {

struct OpTime {
  const char* name = "";
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

class TimedBackend final : public Backend {
 public:
  explicit TimedBackend(Backend& inner) : inner_(inner) {}

#define TRIREME_TIME_OP(Op) \
  void run(Stream stream, const Op& op) override { time(stream, op, times_[static_cast<size_t>(OpIndex::Op)]); }
  TRIREME_OPS(TRIREME_TIME_OP)
#undef TRIREME_TIME_OP
#define TRIREME_PASS_SCRATCH(Op) \
  int64_t scratch_bytes(const Op& op) const override { return inner_.scratch_bytes(op); }
  TRIREME_OPS(TRIREME_PASS_SCRATCH)
#undef TRIREME_PASS_SCRATCH

  void set_scratch(Stream stream, Tensor scratch) override { inner_.set_scratch(stream, scratch); }
  Event record(Stream stream, const char* name) override { return inner_.record(stream, name); }
  void wait(Stream stream, const Event& event) override { inner_.wait(stream, event); }
  void synchronize(const Event& event) override { inner_.synchronize(event); }
  Memory allocate(int64_t bytes) override { return inner_.allocate(bytes); }
  void upload(Stream stream, const void* from, Tensor to) override { inner_.upload(stream, from, to); }
  void download(Stream stream, Tensor from, void* to) override { inner_.download(stream, from, to); }
  int64_t full_speed_rows() const override { return inner_.full_speed_rows(); }
  double measure_peak_tflops(DType dtype) override { return inner_.measure_peak_tflops(dtype); }
  bool has_fp8() const override { return inner_.has_fp8(); }
  std::optional<DeviceMemory> device_memory() const override { return inner_.device_memory(); }
  std::string device_name() const override { return inner_.device_name(); }
  std::string description() const override { return inner_.description(); }

  // One line an op that was called, the most expensive first: calls, seconds, share, TFLOP/s, GB/s.
  std::string table() const;

 private:
#define TRIREME_NAME_OP(Op) Op,
  enum class OpIndex : size_t { TRIREME_OPS(TRIREME_NAME_OP) count_ };
#undef TRIREME_NAME_OP

  // Waits for the op to end, so that on a backend that runs ops later its time is its own.
  template <class Op>
  void time(Stream stream, const Op& op, OpTime& sum) {
    const Stopwatch watch;
    inner_.run(stream, op);
    inner_.synchronize(inner_.record(stream, Op::kName));
    ByteCounter bytes;
    op.visit(bytes);
    sum.name = Op::kName;
    ++sum.calls;
    sum.seconds += watch.seconds();
    sum.flops += flops_of(op);
    sum.bytes += static_cast<double>(bytes.read + bytes.written);
  }

  Backend& inner_;
  std::array<OpTime, static_cast<size_t>(OpIndex::count_)> times_{};
};

}  // namespace trireme

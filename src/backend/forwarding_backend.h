// A backend that passes every call on to another one. Those that add something to a few calls override these.
#pragma once

#include "backend/backend.h"

namespace trireme {

class ForwardingBackend : public Backend {
 public:
#define TRIREME_FORWARD_OP(Op)                                               \
  void run(Stream stream, const Op& op) override { inner_.run(stream, op); } \
  int64_t scratch_bytes(const Op& op) const override { return inner_.scratch_bytes(op); }
  TRIREME_OPS(TRIREME_FORWARD_OP)
#undef TRIREME_FORWARD_OP

  void set_scratch(Stream stream, Tensor scratch) override { inner_.set_scratch(stream, scratch); }
  void repeat(Stream stream, const WorkKey& key, const std::function<void()>& enqueue) override {
    inner_.repeat(stream, key, enqueue);
  }
  void forget_repeated_work() override { inner_.forget_repeated_work(); }
  void tune_repeated_work() override { inner_.tune_repeated_work(); }
  void note_time(Stream stream, double* seconds) override { inner_.note_time(stream, seconds); }
  void read_times() override { inner_.read_times(); }
  void collect_times() override { inner_.collect_times(); }
  void begin_range(const char* name, std::optional<int64_t> number) override { inner_.begin_range(name, number); }
  void end_range() override { inner_.end_range(); }
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
  bool has_room_for_wgrad(int64_t rows, int64_t columns) const override { return inner_.has_room_for_wgrad(rows, columns); }
  double measure_peak_tflops(DType dtype) override { return inner_.measure_peak_tflops(dtype); }
  bool has_fp8() const override { return inner_.has_fp8(); }
  bool has_f16() const override { return inner_.has_f16(); }
  std::optional<DeviceMemory> device_memory() const override { return inner_.device_memory(); }
  std::string device_name() const override { return inner_.device_name(); }
  std::string description() const override { return inner_.description(); }

 protected:
  explicit ForwardingBackend(Backend& inner) : inner_(inner) {}

  Backend& inner_;
};

}  // namespace trireme

// Runs every op on another backend and writes it down in a log before: what a step really executed.
#pragma once

#include "backend/cost/cost_backend.h"

namespace trireme {

class TracedBackend final : public Backend {
 public:
  TracedBackend(Backend& inner, StepLog& log) : inner_(inner), log_(log) {}

#define TRIREME_TRACE_OP(Op)                       \
  void run(Stream stream, const Op& op) override { \
    log_.add(record_of(stream, op));               \
    inner_.run(stream, op);                        \
  }                                                \
  int64_t scratch_bytes(const Op& op) const override { return inner_.scratch_bytes(op); }
  TRIREME_OPS(TRIREME_TRACE_OP)
#undef TRIREME_TRACE_OP

  void set_scratch(Stream stream, Tensor scratch) override { inner_.set_scratch(stream, scratch); }
  Event record(Stream stream, const char* name) override {
    log_.add({.kind = RecordKind::event, .name = name, .stream = stream});
    return inner_.record(stream, name);
  }
  void wait(Stream stream, const Event& event) override {
    log_.add({.kind = RecordKind::wait, .name = event.name, .stream = stream});
    inner_.wait(stream, event);
  }
  void note_time(Stream stream, double* seconds) override { inner_.note_time(stream, seconds); }
  void read_times() override { inner_.read_times(); }
  void synchronize(const Event& event) override { inner_.synchronize(event); }
  Memory allocate(int64_t bytes) override { return inner_.allocate(bytes); }
  Memory allocate_host(int64_t bytes) override { return inner_.allocate_host(bytes); }
  void upload(Stream stream, const void* from, Tensor to) override { inner_.upload(stream, from, to); }
  void download(Stream stream, Tensor from, void* to) override { inner_.download(stream, from, to); }
  int64_t full_speed_rows() const override { return inner_.full_speed_rows(); }
  bool has_room_beside(int64_t rows, int64_t columns) const override { return inner_.has_room_beside(rows, columns); }
  std::optional<DeviceMemory> device_memory() const override { return inner_.device_memory(); }
  std::string device_name() const override { return inner_.device_name(); }
  double measure_peak_tflops(DType dtype) override { return inner_.measure_peak_tflops(dtype); }
  std::string description() const override { return inner_.description(); }

 private:
  Backend& inner_;
  StepLog& log_;
};

}  // namespace trireme

// Computes nothing and counts everything: each op becomes a record of its name, stream, FLOPs and bytes. A step is recorded here
// before the first real one, to plan its memory. Tensors have shapes but no storage.
#pragma once

#include <algorithm>

#include "backend/backend.h"
#include "backend/step_log.h"

namespace trireme {

// Sums the bytes of the operands that an op's visit() names.
struct ByteCounter {
  int64_t read = 0, written = 0;
  void in(const char*, const Tensor& tensor) { read += tensor.bytes(); }
  void out(const char*, const Tensor& tensor) { written += tensor.bytes(); }
  void update(const char*, const Tensor& tensor) { read += tensor.bytes(), written += tensor.bytes(); }
  void scratch(const char*, const Tensor&) {}
  void in_place(const Tensor&, const Tensor&) {}
};

template <class Op>
double flops_of(const Op& op) {
  if constexpr (requires { op.flops(); }) return op.flops();
  return 0;
}

template <class Op>
OpRecord record_of(Stream stream, const Op& op) {
  ByteCounter bytes;
  op.visit(bytes);
  return {.kind = RecordKind::op,
          .name = Op::kName,
          .stream = stream,
          .flops = flops_of(op),
          .bytes_read = bytes.read,
          .bytes_written = bytes.written};
}

// Forwards the operands of an op to a watcher.
struct OperandWatcher {
  StepWatcher& watcher;
  void in(const char*, const Tensor& tensor) { watcher.access(tensor, Access::read); }
  void out(const char*, const Tensor& tensor) { watcher.access(tensor, Access::written); }
  void update(const char*, const Tensor& tensor) { watcher.access(tensor, Access::updated); }
  void scratch(const char*, const Tensor& tensor) { watcher.access(tensor, Access::scratch); }
  void in_place(const Tensor& out, const Tensor& in) { watcher.in_place(out, in); }
};

// The largest scratch memory of any op.
struct ScratchPeaks {
  int64_t compute = 0;
  int64_t wgrad = 0;  // of wgrad on its own stream
};

class CostBackend final : public Backend {
 public:
  // `target` is the backend that the step will run on; it knows the scratch memory of its ops.
  CostBackend(const Backend& target, StepLog& log) : target_(target), log_(log) {}

#define TRIREME_RECORD_OP(Op) \
  void run(Stream stream, const Op& op) override { record_op(stream, op); }
  TRIREME_OPS(TRIREME_RECORD_OP)
#undef TRIREME_RECORD_OP

  void set_scratch(Stream, Tensor) override {}
  Event record(Stream stream, const char* name) override {
    log_.add({.kind = RecordKind::event, .name = name, .stream = stream});
    return {name, stream, log_.watcher() != nullptr ? log_.watcher()->record(stream, name) : 0};
  }
  void wait(Stream stream, const Event& event) override {
    log_.add({.kind = RecordKind::wait, .name = event.name, .stream = stream});
    if (log_.watcher() != nullptr) log_.watcher()->wait(stream, event.ticket);
  }
  void synchronize(const Event&) override {}
  Memory allocate(int64_t) override { return {}; }
  void upload(Stream, const void*, Tensor) override {}
  void download(Stream, Tensor, void*) override {}
  int64_t full_speed_rows() const override { return target_.full_speed_rows(); }
  bool has_room_for_wgrad(int64_t rows, int64_t columns) const override { return target_.has_room_for_wgrad(rows, columns); }
  std::string description() const override { return "cost: counts, computes nothing"; }

  const ScratchPeaks& scratch_peaks() const { return scratch_peaks_; }

 private:
  template <class Op>
  void record_op(Stream stream, const Op& op) {
    log_.add(record_of(stream, op));
    const int64_t scratch = target_.scratch_bytes(op);
    int64_t& peak = stream == kWgrad ? scratch_peaks_.wgrad : scratch_peaks_.compute;
    peak = std::max(peak, scratch);
    if (StepWatcher* watcher = log_.watcher(); watcher != nullptr) {
      watcher->begin_call(stream, scratch);
      op.visit(OperandWatcher{*watcher});
    }
  }

  const Backend& target_;
  StepLog& log_;
  ScratchPeaks scratch_peaks_;
};

}  // namespace trireme

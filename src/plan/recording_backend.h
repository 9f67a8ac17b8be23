// A backend that executes nothing and keeps the shape of every op.
#pragma once

#include "backend/cost/cost_backend.h"
#include "backend/cost/cost_gpu.h"
#include "plan/recording.h"

namespace trireme {

template <class Op>
PlanCall call_of(const Op& op) {
  ByteCounter bytes;
  op.visit(bytes);
  PlanCall call{.name = Op::kName, .flops = flops_of(op), .bytes = static_cast<double>(bytes.read + bytes.written)};
  const auto gemm = [&](int64_t rows, int64_t columns, int64_t depth, const Operand& of) {
    call.kind = CallKind::gemm;
    call.rows = rows, call.columns = columns, call.depth = depth;
    call.dtype = of.fp8 ? of.fp8.dtype() : of.dtype();
  };
  const auto rows_of = [](const Operand& x) { return x.count() / x.shape()[-1]; };
  if constexpr (std::is_same_v<Op, LinearForward>) {
    gemm(rows_of(op.x), op.weight.shape()[0], op.weight.shape()[1], op.x);
  } else if constexpr (std::is_same_v<Op, LinearInputGrad>) {
    gemm(rows_of(op.d_out), op.weight.shape()[1], op.weight.shape()[0], op.d_out);
  } else if constexpr (std::is_same_v<Op, LinearWeightGrad>) {
    gemm(op.d_out.shape()[-1], op.x.shape()[-1], rows_of(op.x), op.d_out);
  } else if constexpr (std::is_same_v<Op, AttentionForward> || std::is_same_v<Op, AttentionBackward>) {
    call.kind = std::is_same_v<Op, AttentionForward> ? CallKind::attention_forward : CallKind::attention_backward;
    call.rows = op.q.packed.shape()[1], call.columns = op.key_length, call.depth = op.q.packed.shape()[3];
    call.batches = op.q.packed.shape()[0] * op.q.count;
  } else if constexpr (std::is_same_v<Op, AdamW> || std::is_same_v<Op, SquaredNorms> || std::is_same_v<Op, ApplyClip> ||
                       std::is_same_v<Op, ScaleLoss> || std::is_same_v<Op, UpdateLossScale> || std::is_same_v<Op, UpdateScales>) {
    call.kind = CallKind::optimizer;
  }
  if constexpr (requires { op.dropout; })
    if (op.dropout.active()) call.draws = call.flops > 0 ? call.flops : call.bytes;
  return call;
}

class RecordingBackend final : public CostGpu {
 public:
  explicit RecordingBackend(RecordedDevice device) : device_(device) {}
  std::vector<PlanCall> calls;  // in order

#define TRIREME_RECORD_CALL(Op) \
  void run(Stream, const Op& op) override { calls.push_back(call_of(op)); }
  TRIREME_OPS(TRIREME_RECORD_CALL)
#undef TRIREME_RECORD_CALL

  int64_t full_speed_rows() const override {
    if (device_ == RecordedDevice::gpu) return CostGpu::full_speed_rows();
    return Backend::full_speed_rows();  // NOLINT(bugprone-parent-virtual-call): a CPU has the default of all backends
  }
  bool has_room_for_wgrad(int64_t rows, int64_t columns) const override {
    return device_ == RecordedDevice::gpu && CostGpu::has_room_for_wgrad(rows, columns);
  }
  std::string description() const override { return "records the calls of a step"; }

 private:
  RecordedDevice device_;
};

}  // namespace trireme

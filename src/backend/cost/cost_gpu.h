// Stands in for a GPU when the memory of a run is planned on a machine without one. It runs nothing; it answers what recording a
// step asks of its target backend. Library workspaces are as measured on an H200.
#pragma once

#include "backend/backend.h"
#include "backend/gemm_shape.h"
#include "base/error.h"

namespace trireme {

class CostGpu : public Backend {
 public:
#define TRIREME_REFUSE_OP(Op) \
  void run(Stream, const Op&) override { throw Failure("{} was asked of a GPU that only records", Op::kName); }
  TRIREME_OPS(TRIREME_REFUSE_OP)
#undef TRIREME_REFUSE_OP

  using Backend::scratch_bytes;
  int64_t scratch_bytes(const LinearForward&) const override { return kGemmWorkspace; }
  int64_t scratch_bytes(const LinearInputGrad&) const override { return kGemmWorkspace; }
  int64_t scratch_bytes(const LinearWeightGrad&) const override { return kGemmWorkspace; }
  // For deterministic sums cuDNN's backward keeps an f32 gradient of the queries per tile of keys. A tile has 256 keys, or 128
  // with heads of up to 64. Measured with 2048 keys: 8 times the gradient with heads of 128, 15 times with heads of 64.
  int64_t scratch_bytes(const AttentionBackward& op) const override {
    const int64_t tile = op.d_out.shape[3] > 64 ? 256 : 128, tiles = ceil_div(op.key_length, tile);
    return tiles * op.d_out.count() * size_of(DType::f32) + 8 * op.lse.count() * size_of(DType::f32) + bias_bytes(op);
  }
  int64_t scratch_bytes(const AttentionForward& op) const override { return bias_bytes(op); }

  void set_scratch(Stream, Tensor) override {}
  Event record(Stream stream, const char* name) override { return {name, stream, 0}; }
  void wait(Stream, const Event&) override {}
  void synchronize(const Event&) override {}
  Memory allocate(int64_t) override { return {}; }
  void upload(Stream, const void*, Tensor) override {}
  void download(Stream, Tensor, void*) override {}
  int64_t full_speed_rows() const override { return 8192; }
  bool has_room_for_wgrad(int64_t rows, int64_t columns) const override {
    constexpr int64_t kMultiprocessors = 132;
    return cuda::gemm_tiles(rows, columns) < 2 * kMultiprocessors;
  }
  std::string description() const override { return "a GPU that only records"; }

 private:
  // The mask that separates documents: [B,1,T,T] bf16.
  template <class Op>
  static int64_t bias_bytes(const Op& op) {
    return op.document_starts.count() * op.key_length * size_of(DType::bf16);
  }
  static constexpr int64_t kGemmWorkspace = int64_t{32} << 20;
};

}  // namespace trireme

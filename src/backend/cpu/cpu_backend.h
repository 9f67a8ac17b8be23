// The fast CPU backend. Ops run inline on the calling thread and its pool. Each file of this folder implements a group of ops:
// linear.cpp, attention.cpp, norm.cpp, pointwise.cpp, embedding.cpp, loss.cpp, optimizer.cpp. Their inner loops are in kernels/.
#pragma once

#include "backend/cpu/isa.h"
#include "backend/host_backend.h"
#include "base/thread_pool.h"

namespace trireme {

class CpuBackend final : public HostBackend {
 public:
  explicit CpuBackend(int threads = 0, cpu::Isa isa = cpu::choose_isa()) : pool_(threads), isa_(isa) {}

#define TRIREME_DECLARE_OP(Op) void run(Stream stream, const Op& op) override;
  TRIREME_OPS(TRIREME_DECLARE_OP)
#undef TRIREME_DECLARE_OP

  using Backend::scratch_bytes;
  int64_t scratch_bytes(const LinearForward& op) const override;
  int64_t scratch_bytes(const LinearInputGrad& op) const override;
  int64_t scratch_bytes(const LinearWeightGrad& op) const override;
  int64_t scratch_bytes(const AttentionForward& op) const override;
  int64_t scratch_bytes(const AttentionBackward& op) const override;
  int64_t scratch_bytes(const ResidualNormBackward& op) const override;
  int64_t scratch_bytes(const SquaredNorms& op) const override;
  void set_scratch(Stream stream, Tensor scratch) override;

  Memory allocate(int64_t bytes) override;
  void upload(Stream stream, const void* from, Tensor to) override;
  void download(Stream stream, Tensor from, void* to) override;
  double measure_peak_tflops(DType dtype) override;  // multiply-adds in registers only, on all threads
  std::string description() const override;

 private:
  ThreadPool pool_;
  cpu::Isa isa_;
  Tensor scratch_;  // of the compute stream, the only one with ops
};

}  // namespace trireme

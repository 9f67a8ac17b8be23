// The CUDA backend: one GPU. Ops are enqueued on CUDA streams and return at once. Each file of this folder implements a group of
// ops: linear.cpp (cuBLASLt), attention.cpp (cuDNN), and our own kernels in the .cu files. Every op is deterministic: sums have a
// fixed order and never use atomics.
#pragma once

#include <memory>

#include "backend/backend.h"

struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace trireme {
namespace cuda {
class Streams;
class Staging;
class Gemm;
class Attention;
class Aside;
class Replays;
class StepTuning;
class Times;
}  // namespace cuda

class CudaBackend final : public Backend, public DeviceStreams {
 public:
  explicit CudaBackend(int device = 0);  // as CUDA_VISIBLE_DEVICES numbers them
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

#define TRIREME_DECLARE_OP(Op) void run(Stream stream, const Op& op) override;
  TRIREME_OPS(TRIREME_DECLARE_OP)
#undef TRIREME_DECLARE_OP

  using Backend::scratch_bytes;
  int64_t scratch_bytes(const EmbeddingBackward& op) const override;
  int64_t scratch_bytes(const ResidualNormBackward& op) const override;
  int64_t scratch_bytes(const LinearForward& op) const override;
  int64_t scratch_bytes(const LinearInputGrad& op) const override;
  int64_t scratch_bytes(const LinearWeightGrad& op) const override;
  int64_t scratch_bytes(const AttentionForward& op) const override;
  int64_t scratch_bytes(const AttentionBackward& op) const override;
  int64_t scratch_bytes(const CrossEntropyGrad& op) const override;
  int64_t scratch_bytes(const SquaredNorms& op) const override;
  int64_t scratch_bytes(const AdamW& op) const override;
  void set_scratch(Stream stream, Tensor scratch) override;

  void repeat(Stream stream, const WorkKey& key, const std::function<void()>& enqueue) override;
  void forget_repeated_work() override;
  void tune_repeated_work() override;

  void note_time(Stream stream, double* seconds) override;
  void read_times() override;
  void collect_times() override;
  void begin_range(const char* name, std::optional<int64_t> number) override;
  void end_range() override;
  void set_profiling(Profiling profiling) override;

  Event record(Stream stream, const char* name) override;
  void wait(Stream stream, const Event& event) override;
  void synchronize(const Event& event) override;

  Memory allocate(int64_t bytes) override;
  Memory allocate_host(int64_t bytes) override;
  void upload(Stream stream, const void* from, Tensor to) override;
  void download(Stream stream, Tensor from, void* to) override;
  bool runs_ahead() const override { return true; }
  int64_t full_speed_rows() const override { return 8192; }
  bool has_room_for_wgrad(int64_t rows, int64_t columns) const override;
  bool has_fp8() const override { return capability_ >= 89; }
  bool has_f16() const override { return false; }
  std::optional<DeviceMemory> device_memory() const override;
  std::string device_name() const override { return name_; }
  std::string description() const override;

  DeviceStreams* device_streams() override { return this; }
  bool reached(const Event& event) const override;
  void* native(Stream stream) const override;
  void set_watch(Watch watch) override;

  cudaStream_t stream(Stream stream);
  int multiprocessors() const { return multiprocessors_; }

 private:
  // Fills the FP8 copies of an operand that an op has written, if it has any.
  void fill_copies(Stream where, const Operand& written) {
    if (written.fp8) run(where, Quantize{.x = written});
  }

  // Returns the scratch memory of a stream, which has at least `bytes`.
  void* scratch(Stream stream, int64_t bytes) const;
  void* scratch(int64_t bytes) const { return scratch(kCompute, bytes); }

  int device_ = 0;
  int multiprocessors_ = 0;
  int capability_ = 0;  // 90 for 9.0
  std::string name_;
  std::unique_ptr<cuda::Streams> streams_;
  std::unique_ptr<cuda::Staging> staging_;
  std::unique_ptr<cuda::Gemm> gemm_;
  std::unique_ptr<cuda::Attention> attention_;
  std::unique_ptr<cuda::Aside> aside_;
  std::unique_ptr<cuda::Replays> replays_;
  std::unique_ptr<cuda::StepTuning> step_tuning_;  // set while tuning in steps
  std::unique_ptr<cuda::Times> times_;
  Tensor scratch_, scratch_wgrad_;  // of the compute stream; of the wgrad stream
};

}  // namespace trireme

// Attention by cuDNN's fused kernels: bf16, whole sequences, head widths that are multiples of 8 up to 128. Graphs are built once
// per shape.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "backend/ops.h"

namespace trireme::cuda {

class Attention {
 public:
  Attention();
  ~Attention();

  // Whether cuDNN's kernels support the op; plain_attention.h runs the others.
  static bool serves(const AttentionForward& op);
  static bool serves(const AttentionBackward& op);

  int64_t workspace_bytes(const AttentionForward& op);
  int64_t workspace_bytes(const AttentionBackward& op);
  void run(const AttentionForward& op, void* workspace, cudaStream_t stream);
  void run(const AttentionBackward& op, void* workspace, cudaStream_t stream);

 private:
  struct Graphs;
  std::unique_ptr<Graphs> graphs_;
};

}  // namespace trireme::cuda

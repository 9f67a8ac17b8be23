// The executable specification: each op as the plain loops of its formula in ops.h, sums in double. Slow on purpose; every other
// backend is tested against it.
#pragma once

#include "backend/host_backend.h"

namespace trireme {

class ReferenceBackend final : public HostBackend {
 public:
#define TRIREME_DECLARE_OP(Op) void run(Stream stream, const Op& op) override;
  TRIREME_OPS(TRIREME_DECLARE_OP)
#undef TRIREME_DECLARE_OP

  void set_scratch(Stream, Tensor) override {}

  Memory allocate(int64_t bytes) override;
  void upload(Stream stream, const void* from, Tensor to) override;
  void download(Stream stream, Tensor from, void* to) override;
  bool has_fp8() const override { return true; }
  std::string description() const override { return "reference: plain loops, double sums, one thread"; }
};

}  // namespace trireme

// The executable specification: each op as the plain loops of its formula in ops.h, sums in double. Slow on purpose; every other
// backend is tested against it.
#pragma once

#include "backend/backend.h"

namespace trireme {

class ReferenceBackend final : public Backend {
 public:
#define TRIREME_DECLARE_OP(Op) void run(Stream stream, const Op& op) override;
  TRIREME_OPS(TRIREME_DECLARE_OP)
#undef TRIREME_DECLARE_OP

  // Ops run inline, so an event is reached when it is recorded.
  void set_scratch(Stream, Tensor) override {}
  Event record(Stream stream, const char* name) override { return {name, stream, 0}; }
  void wait(Stream, const Event&) override {}
  void synchronize(const Event&) override {}

  Memory allocate(int64_t bytes) override;
  void upload(Stream stream, const void* from, Tensor to) override;
  void download(Stream stream, Tensor from, void* to) override;
  std::string description() const override { return "reference: plain loops, double sums, one thread"; }
};

}  // namespace trireme

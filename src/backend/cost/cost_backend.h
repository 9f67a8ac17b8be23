// Computes nothing and counts everything: each op becomes a record of its name, stream, FLOPs and bytes. A step recorded here
// before the first real one sizes the memory; tensors have shapes but no storage.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace trireme {

struct OpRecord {
  std::string_view name;
  Stream stream;
  double flops = 0;
  int64_t bytes_read = 0, bytes_written = 0;
};

// Sums the bytes of the operands that an op's visit() names.
struct ByteCounter {
  int64_t read = 0, written = 0;
  void in(const char*, const Tensor& tensor) { read += tensor.bytes(); }
  void out(const char*, const Tensor& tensor) { written += tensor.bytes(); }
  void update(const char*, const Tensor& tensor) { read += tensor.bytes(), written += tensor.bytes(); }
};

template <class Op>
double flops_of(const Op& op) {
  if constexpr (requires { op.flops(); }) return op.flops();
  return 0;
}

class CostBackend final : public Backend {
 public:
  // `target` is the backend the step will really run on: it knows the scratch memory its ops need.
  explicit CostBackend(const Backend& target) : target_(target) {}

#define TRIREME_RECORD_OP(Op) \
  void run(Stream stream, const Op& op) override { record_op(stream, op); }
  TRIREME_OPS(TRIREME_RECORD_OP)
#undef TRIREME_RECORD_OP

  void set_scratch(Stream, Tensor) override {}
  Event record(Stream stream, const char* name) override { return {name, stream, 0}; }
  void wait(Stream, const Event&) override {}
  void synchronize(const Event&) override {}
  Memory allocate(int64_t) override { return {}; }
  void upload(Stream, const void*, Tensor) override {}
  void download(Stream, Tensor, void*) override {}
  int64_t full_speed_rows() const override { return target_.full_speed_rows(); }
  std::string description() const override { return "cost: counts, computes nothing"; }

  const std::vector<OpRecord>& records() const { return records_; }
  int64_t scratch_peak() const { return scratch_peak_; }
  double flops() const;  // of all records

 private:
  template <class Op>
  void record_op(Stream stream, const Op& op) {
    ByteCounter bytes;
    op.visit(bytes);
    records_.push_back({Op::kName, stream, flops_of(op), bytes.read, bytes.written});
    scratch_peak_ = std::max(scratch_peak_, target_.scratch_bytes(op));
  }

  const Backend& target_;
  std::vector<OpRecord> records_;
  int64_t scratch_peak_ = 0;
};

}  // namespace trireme

// A backend whose attention fills all the memory that it may work in, and that is much, with rubbish (NaNs) before it begins, as
// that of a GPU library may. What lies there and is needed later fails here.
#pragma once

#include <cstring>
#include <memory>

#include "backend/backend.h"

namespace trireme {

class ScribblingBackend final : public Backend {
 public:
  explicit ScribblingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

#define TRIREME_SCRIBBLE_OP(Op)                                                                     \
  void run(Stream stream, const Op& op) override {                                                  \
    if (is_attention<Op>) std::memset(scratch_.data, 0xff, static_cast<size_t>(scratch_bytes(op))); \
    inner_->run(stream, op);                                                                        \
  }                                                                                                 \
  int64_t scratch_bytes(const Op& op) const override { return inner_->scratch_bytes(op) + (is_attention<Op> ? kMore : 0); }
  TRIREME_OPS(TRIREME_SCRIBBLE_OP)
#undef TRIREME_SCRIBBLE_OP

  void set_scratch(Stream stream, Tensor scratch) override {
    scratch_ = scratch;
    inner_->set_scratch(stream, scratch);
  }
  Event record(Stream stream, const char* name) override { return inner_->record(stream, name); }
  void wait(Stream stream, const Event& event) override { inner_->wait(stream, event); }
  void synchronize(const Event& event) override { inner_->synchronize(event); }
  Memory allocate(int64_t bytes) override { return inner_->allocate(bytes); }
  void upload(Stream stream, const void* from, Tensor to) override { inner_->upload(stream, from, to); }
  void download(Stream stream, Tensor from, void* to) override { inner_->download(stream, from, to); }
  int64_t full_speed_rows() const override { return 16; }  // the head of small models works in several chunks
  bool has_fp8() const override { return inner_->has_fp8(); }
  std::string description() const override { return inner_->description(); }

 private:
  template <class Op>
  static constexpr bool is_attention = std::is_same_v<Op, AttentionForward> || std::is_same_v<Op, AttentionBackward>;
  static constexpr int64_t kMore = int64_t{2} << 20;  // more than blocks of small models work in

  std::unique_ptr<Backend> inner_;
  Tensor scratch_;
};

}  // namespace trireme

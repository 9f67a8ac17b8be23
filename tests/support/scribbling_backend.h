// A backend whose attention fills all the memory that it may work in, and that is much, with rubbish (NaNs) before it begins, as
// that of a GPU library may. What lies there and is needed later fails here.
#pragma once

#include <cstring>
#include <memory>

#include "backend/forwarding_backend.h"

namespace trireme {

class ScribblingBackend final : public ForwardingBackend {
 public:
  explicit ScribblingBackend(std::unique_ptr<Backend> inner) : ForwardingBackend(*inner), owned_(std::move(inner)) {}

#define TRIREME_SCRIBBLE_OP(Op)                                                                     \
  void run(Stream stream, const Op& op) override {                                                  \
    if (is_attention<Op>) std::memset(scratch_.data, 0xff, static_cast<size_t>(scratch_bytes(op))); \
    inner_.run(stream, op);                                                                         \
  }                                                                                                 \
  int64_t scratch_bytes(const Op& op) const override { return inner_.scratch_bytes(op) + (is_attention<Op> ? kMore : 0); }
  TRIREME_OPS(TRIREME_SCRIBBLE_OP)
#undef TRIREME_SCRIBBLE_OP

  void set_scratch(Stream stream, Tensor scratch) override {
    scratch_ = scratch;
    inner_.set_scratch(stream, scratch);
  }
  int64_t full_speed_rows() const override { return 16; }  // the head of small models works in several chunks

 private:
  template <class Op>
  static constexpr bool is_attention = std::is_same_v<Op, AttentionForward> || std::is_same_v<Op, AttentionBackward>;
  static constexpr int64_t kMore = int64_t{2} << 20;  // more than blocks of small models work in

  std::unique_ptr<Backend> owned_;
  Tensor scratch_;
};

}  // namespace trireme

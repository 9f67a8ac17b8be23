// A backend with room for weight products beside the compute stream, which does them as late as it may: when that stream waits
// for them. While they are put off it fills all the memory that they may work in with rubbish (NaNs). Operands that are
// overwritten too early, results that are read too early, and memory that is not theirs alone give other results here.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <memory>

#include "backend/forwarding_backend.h"

namespace trireme {

class LateBackend final : public ForwardingBackend {
 public:
  explicit LateBackend(std::unique_ptr<Backend> inner) : ForwardingBackend(*inner), owned_(std::move(inner)) {}

#define TRIREME_LATE_OP(Op)                                                  \
  void run(Stream stream, const Op& op) override {                           \
    if (stream != kWgrad) return inner_.run(stream, op);                     \
    std::memset(scratch_.data, 0xff, static_cast<size_t>(scratch_.bytes())); \
    put_off_.push_back([this, op] { inner_.run(kCompute, op); });            \
    put_off_in_all_ += 1;                                                    \
  }                                                                          \
  int64_t scratch_bytes(const Op& op) const override { return inner_.scratch_bytes(op) + kMore; }
  TRIREME_OPS(TRIREME_LATE_OP)
#undef TRIREME_LATE_OP

  // Ops of the inner backend run one after the other, so that one scratch memory does for both streams.
  void set_scratch(Stream stream, Tensor scratch) override {
    if (stream == kCompute)
      inner_.set_scratch(stream, scratch);
    else
      scratch_ = scratch;
  }
  Event record(Stream stream, const char* name) override {
    if (stream != kWgrad) return inner_.record(stream, name);
    return {.name = name, .stream = stream, .ticket = done_ + put_off_.size()};
  }
  void wait(Stream stream, const Event& event) override {
    if (event.stream != kWgrad) return stream == kWgrad ? void() : inner_.wait(stream, event);
    for (; done_ < event.ticket; ++done_, put_off_.pop_front()) put_off_.front()();
  }
  bool has_room_for_wgrad(int64_t, int64_t) const override { return true; }

  size_t put_off_in_all() const { return put_off_in_all_; }
  size_t left() const { return put_off_.size(); }  // those that nobody has waited for yet

 private:
  static constexpr int64_t kMore = int64_t{64} << 10;

  std::unique_ptr<Backend> owned_;
  Tensor scratch_;  // of what is put off
  std::deque<std::function<void()>> put_off_;
  uint64_t done_ = 0;
  size_t put_off_in_all_ = 0;
};

}  // namespace trireme

// Masters and Adam's moments, all of them on the device or in host memory. From host memory an update passes them through the
// device bucket by bucket: while one bucket is updated the next is copied there. Copies run on the copy stream; a slot is filled
// after what it held has been copied back, because both are on that stream.
#pragma once

#include <array>

#include "model/weights.h"

namespace trireme {

// Of all buckets or of one. Without masters the weights are their own.
struct OptimizerStates {
  Tensor master;                       // f32
  Tensor first_moment, second_moment;  // f32 or bf16
  OptimizerStates rows(int64_t begin, int64_t count) const;
};

// Bytes of both moments of a parameter.
int64_t moment_bytes(const OptimSettings& optim);

class HostStates {
 public:
  // `all` [layout.state_count] is in host memory; takes two slots from `device`, each for the largest bucket.
  HostStates(const FlatLayout& layout, const OptimizerStates& all, Backend& backend, Arena& device);

  // Starts to copy the states of a bucket to the device, unless they are there. Two buckets with neighbouring numbers can be
  // there at the same time.
  void prefetch(size_t bucket);
  // Returns them on the device; later work on the compute stream waits for the copy.
  OptimizerStates acquire(size_t bucket);
  // The same without a copy, for work that overwrites all of them.
  OptimizerStates acquire_unread(size_t bucket);
  // Call after the last work on them. What was written is copied back.
  enum class Written : uint8_t { no, yes };
  void release(size_t bucket, Written written);
  // Waits until host memory has all that was copied back.
  void synchronize() const { backend_.synchronize(stored_); }

 private:
  static constexpr size_t kSlots = 2, kNothing = static_cast<size_t>(-1);
  struct Slot {
    OptimizerStates states;
    size_t bucket = kNothing;
    Event filled;
  };

  Slot& slot_of(size_t bucket) { return slots_[bucket % kSlots]; }
  OptimizerStates in_slot(size_t bucket) { return slot_of(bucket).states.rows(0, layout_.buckets[bucket].own.count); }
  OptimizerStates on_host(size_t bucket) const;

  const FlatLayout& layout_;
  OptimizerStates all_;
  Backend& backend_;
  std::array<Slot, kSlots> slots_;
  Event stored_;
};

}  // namespace trireme

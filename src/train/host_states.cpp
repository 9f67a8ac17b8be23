#include "train/host_states.h"

#include <algorithm>

namespace trireme {
namespace {

// Of each kind that there is.
void copy_states(Backend& backend, const OptimizerStates& from, const OptimizerStates& to) {
  for (Tensor OptimizerStates::*kind :
       {&OptimizerStates::master, &OptimizerStates::first_moment, &OptimizerStates::second_moment})
    if (from.*kind) backend.run(kCopy, Copy{.from = from.*kind, .to = to.*kind});
}

}  // namespace

int64_t moment_bytes(const OptimSettings& optim) {
  const auto bytes = [](MomentType type) { return size_of(type == MomentType::bf16 ? DType::bf16 : DType::f32); };
  return bytes(optim.exp_avg_dtype) + bytes(optim.exp_avg_sq_dtype);
}

OptimizerStates OptimizerStates::rows(int64_t begin, int64_t count) const {
  return {.master = master ? master.rows(begin, count) : Tensor{},
          .first_moment = first_moment.rows(begin, count),
          .second_moment = second_moment.rows(begin, count)};
}

HostStates::HostStates(const FlatLayout& layout, const OptimizerStates& all, Backend& backend, Arena& device)
    : layout_(layout), all_(all), backend_(backend) {
  int64_t most = 0;
  for (const Bucket& bucket : layout.buckets) most = std::max(most, bucket.own.count);
  for (Slot& slot : slots_) {
    if (all.master) slot.states.master = device.take({most}, all.master.dtype);
    slot.states.first_moment = device.take({most}, all.first_moment.dtype);
    slot.states.second_moment = device.take({most}, all.second_moment.dtype);
  }
}

OptimizerStates HostStates::on_host(size_t bucket) const {
  return all_.rows(layout_.buckets[bucket].state, layout_.buckets[bucket].own.count);
}

void HostStates::prefetch(size_t bucket) {
  Slot& slot = slot_of(bucket);
  if (slot.bucket == bucket) return;
  slot.bucket = bucket;
  copy_states(backend_, on_host(bucket), in_slot(bucket));
  slot.filled = backend_.record(kCopy, "states_on_device");
}

OptimizerStates HostStates::acquire(size_t bucket) {
  prefetch(bucket);
  backend_.wait(kCompute, slot_of(bucket).filled);
  return in_slot(bucket);
}

OptimizerStates HostStates::acquire_unread(size_t bucket) {
  slot_of(bucket).bucket = bucket;
  backend_.wait(kCompute, stored_);
  return in_slot(bucket);
}

void HostStates::release(size_t bucket, Written written) {
  slot_of(bucket).bucket = kNothing;
  backend_.wait(kCopy, backend_.record(kCompute, "states_updated"));
  if (written == Written::no) return;
  copy_states(backend_, in_slot(bucket), on_host(bucket));
  stored_ = backend_.record(kCopy, "states_on_host");
}

}  // namespace trireme

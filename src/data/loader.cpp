#include "data/loader.h"

#include "base/error.h"

namespace trireme {

Loader::Loader(const Dataset& dataset, const SamplerLayout& layout, int64_t consumed_samples, int64_t depth)
    : dataset_(dataset),
      layout_(layout),
      consumed_samples_(consumed_samples),
      count_(micro_batches_left(layout, consumed_samples, dataset.size())) {
  CHECK(depth >= 2);  // one in the caller's hands, one in the making
  ring_.assign(static_cast<size_t>(depth), Batch(layout.micro_batch, dataset.sequence()));
  thread_ = std::thread([this] { fill_ring(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::fill_ring() {
  const auto depth = static_cast<int64_t>(ring_.size());
  for (int64_t number = 0; number < count_; ++number) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || number < released_ + depth; });
      if (stop_) return;
    }
    std::exception_ptr error;
    try {
      fill_batch(dataset_, first_sample(layout_, consumed_samples_, number), slot(number));
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      if (error) {
        error_ = error;
      } else {
        filled_ = number + 1;
      }
    }
    changed_.notify_all();
    if (error) return;
  }
}

int64_t Loader::upcoming_targets(int64_t count) {
  std::unique_lock lock(mutex_);
  CHECK(count < static_cast<int64_t>(ring_.size()) && taken_ + count <= count_);
  released_ = taken_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return filled_ >= taken_ + count || error_; });
  if (filled_ < taken_ + count) std::rethrow_exception(error_);
  int64_t targets = 0;
  for (int64_t number = taken_; number < taken_ + count; ++number) targets += slot(number).unmasked_targets;
  return targets;
}

const Batch& Loader::next() {
  std::unique_lock lock(mutex_);
  CHECK(taken_ < count_);
  released_ = taken_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return filled_ > taken_ || error_; });
  if (filled_ == taken_) std::rethrow_exception(error_);
  return slot(taken_++);
}

}  // namespace trireme

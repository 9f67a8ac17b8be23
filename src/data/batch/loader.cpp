#include "data/batch/loader.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/start_threads.h"

namespace trireme {

Loader::Loader(const Dataset& dataset, const SamplerLayout& layout, int64_t consumed_samples, int64_t depth, int64_t threads)
    : dataset_(dataset),
      layout_(layout),
      consumed_samples_(consumed_samples),
      count_(micro_batches_left(layout, consumed_samples, dataset.size())) {
  CHECK(depth >= 2 && threads >= 1);  // the caller holds one while another is filled
  ring_.assign(static_cast<size_t>(depth),
               Slot{.batch = Batch(layout.micro_batch, dataset.sequence(), layout.cut, layout.documents), .number = -1});
  start_threads(
      threads_, std::min(threads, depth - 1), [this](int64_t) { fill_ring(); }, [this] { stop(); });
}

Loader::~Loader() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
}

void Loader::fill_ring() {
  const auto depth = std::ssize(ring_);
  std::unique_lock lock(mutex_);
  while (true) {
    room_.wait(lock, [&] { return stop_ || failed_ >= 0 || begun_ == count_ || begun_ < released_ + depth; });
    if (stop_ || failed_ >= 0 || begun_ == count_) return;
    const int64_t number = begun_++;
    Slot& filled = slot(number);
    lock.unlock();
    std::exception_ptr error;
    try {
      fill_batch(dataset_, first_sample(layout_, consumed_samples_, number), filled.batch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error) {
      filled.number = number;
    } else if (failed_ < 0 || number < failed_) {
      failed_ = number;
      error_ = error;
    }
    made_.notify_all();
    if (error) room_.notify_all();
  }
}

void Loader::wait_for(int64_t number, std::unique_lock<std::mutex>& lock) {
  const auto there = [&] { return slot(number).number == number; };
  // Batches before the failed one are complete or still being filled.
  const auto settled = [&] { return there() || failed_ == number; };
  if (!settled()) {
    const Stopwatch watch;
    made_.wait(lock, settled);
    waited_.count += 1;
    waited_.seconds += watch.seconds();
  }
  if (!there()) std::rethrow_exception(error_);
}

int64_t Loader::upcoming_targets(int64_t count) {
  std::unique_lock lock(mutex_);
  CHECK(count < std::ssize(ring_) && taken_ + count <= count_);
  released_ = taken_;
  room_.notify_all();
  int64_t targets = 0;
  for (int64_t number = taken_; number < taken_ + count; ++number) {
    wait_for(number, lock);
    targets += slot(number).batch.unmasked_targets;
  }
  return targets;
}

const Batch& Loader::next() {
  std::unique_lock lock(mutex_);
  CHECK(taken_ < count_);
  released_ = taken_;
  room_.notify_all();
  wait_for(taken_, lock);
  return slot(taken_++).batch;
}

}  // namespace trireme

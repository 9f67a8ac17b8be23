// Makes micro-batches ahead of time: one thread fills a ring of batches that were allocated at the start, the training step
// takes them in order. What it yields does not depend on timing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/sampler.h"

namespace trireme {

class Loader {
 public:
  // Yields this rank's micro-batches from the position `consumed_samples` to the end of the dataset, which must outlive the
  // loader. `depth` batches are kept, one of them in the caller's hands.
  Loader(const Dataset& dataset, const SamplerLayout& layout, int64_t consumed_samples, int64_t depth = 4);
  ~Loader();  // waits for the batch in the making only
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next micro-batch; valid until the following call. Rethrows what the dataset threw while it was made. The caller must
  // not ask for more than remaining().
  const Batch& next();

  // Unmasked targets of the next `count` micro-batches, without taking them: fewer than `depth`. The
  // last batch taken is no longer valid.
  int64_t upcoming_targets(int64_t count);

  int64_t remaining() const { return count_ - taken_; }  // micro-batches that next() will still give

 private:
  void fill_ring();
  Batch& slot(int64_t number) { return ring_[static_cast<size_t>(number % static_cast<int64_t>(ring_.size()))]; }

  const Dataset& dataset_;
  const SamplerLayout layout_;
  const int64_t consumed_samples_;
  const int64_t count_;  // micro-batches in all
  std::vector<Batch> ring_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t filled_ = 0;    // batches made so far
  int64_t taken_ = 0;     // batches handed out so far; the last of them is still in the caller's hands
  int64_t released_ = 0;  // batches that the caller is done with
  bool stop_ = false;
  std::exception_ptr error_;  // what making batch number filled_ threw
  std::thread thread_;        // last, so that it starts with everything above in place
};

}  // namespace trireme

// Makes micro-batches ahead of time: threads fill a ring of batches that were allocated at the start, the training step takes
// them in order. What it yields does not depend on timing. How long the step had to wait for them is counted.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batch/batch.h"
#include "data/batch/sampler.h"

namespace trireme {

// What the taker of batches waited for; never 0 for the first batch of a run, and 0 from then on if the threads keep up.
struct DataWait {
  int64_t count = 0;
  double seconds = 0;
};

class Loader {
 public:
  // Yields this rank's micro-batches from the position `consumed_samples` to the end of the dataset, which must outlive the
  // loader. `depth` batches are kept, one of them in the caller's hands; `threads` make the others.
  Loader(const Dataset& dataset, const SamplerLayout& layout, int64_t consumed_samples, int64_t depth = 4, int64_t threads = 1);
  ~Loader();  // waits for the batches in the making only
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next micro-batch; valid until the following call. Rethrows what the dataset threw while it was made. The caller must
  // not ask for more than remaining().
  const Batch& next();

  // Unmasked targets of the next `count` micro-batches, without taking them: fewer than `depth`. The
  // last batch taken is no longer valid.
  int64_t upcoming_targets(int64_t count);

  int64_t remaining() const { return count_ - taken_; }  // micro-batches that next() will still give
  DataWait waited() const { return waited_; }            // by the caller, so far

 private:
  struct Slot {
    Batch batch;
    int64_t number = -1;  // of the batch that lies in it, complete
  };

  void fill_ring();
  void stop();
  Slot& slot(int64_t number) { return ring_[static_cast<size_t>(number % std::ssize(ring_))]; }
  void wait_for(int64_t number, std::unique_lock<std::mutex>& lock);  // rethrows what making it threw

  const Dataset& dataset_;
  const SamplerLayout layout_;
  const int64_t consumed_samples_;
  const int64_t count_;  // micro-batches in all
  std::vector<Slot> ring_;
  DataWait waited_;

  std::mutex mutex_;
  std::condition_variable room_, made_;
  int64_t begun_ = 0;     // batches that a thread has taken on
  int64_t taken_ = 0;     // batches handed out so far; the last of them is still in the caller's hands
  int64_t released_ = 0;  // batches that the caller is done with
  bool stop_ = false;
  int64_t failed_ = -1;               // the first batch that could not be made
  std::exception_ptr error_;          // what making it threw
  std::vector<std::thread> threads_;  // last, so that they start with everything above in place
};

}  // namespace trireme

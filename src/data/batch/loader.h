// Prefetches micro-batches: threads fill a ring of preallocated batches, and the training step takes them in order. The batches
// do not depend on timing. The loader counts how long the step waits for them.
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

// How often and how long the caller waited. The first batch of a run always waits; later ones do not if the threads keep up.
struct DataWait {
  int64_t count = 0;
  double seconds = 0;
};

class Loader {
 public:
  // Yields this rank's micro-batches from position `consumed_samples` to the end of the dataset, which must outlive the loader.
  // The ring has `depth` batches. The caller holds one of them while `threads` threads fill the others.
  Loader(const Dataset& dataset, const SamplerLayout& layout, int64_t consumed_samples, int64_t depth = 4, int64_t threads = 1);
  ~Loader();  // waits only for batches being filled
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next micro-batch, valid until the following call. Rethrows the dataset's exception. The caller must not ask for
  // more than remaining().
  const Batch& next();

  // Returns the number of unmasked targets in the next `count` micro-batches without taking them; `count` must be below `depth`.
  // Invalidates the batch returned by the last next().
  int64_t upcoming_targets(int64_t count);

  int64_t remaining() const { return count_ - taken_; }  // micro-batches that next() can still return
  DataWait waited() const { return waited_; }            // waits of the caller so far

 private:
  struct Slot {
    Batch batch;
    int64_t number = -1;  // sequence number of the complete batch in `batch`
  };

  void fill_ring();
  void stop();
  Slot& slot(int64_t number) { return ring_[static_cast<size_t>(number % std::ssize(ring_))]; }
  void wait_for(int64_t number, std::unique_lock<std::mutex>& lock);  // rethrows the exception of the thread that filled it

  const Dataset& dataset_;
  const SamplerLayout layout_;
  const int64_t consumed_samples_;
  const int64_t count_;  // total micro-batches
  std::vector<Slot> ring_;
  DataWait waited_;

  std::mutex mutex_;
  std::condition_variable room_, made_;
  int64_t begun_ = 0;     // batches that a thread has started to fill
  int64_t taken_ = 0;     // batches returned by next(); the caller still holds the last one
  int64_t released_ = 0;  // batches that the caller has released
  bool stop_ = false;
  int64_t failed_ = -1;               // sequence number of the first batch that failed
  std::exception_ptr error_;          // its exception
  std::vector<std::thread> threads_;  // last member: threads start after all others are initialised
};

}  // namespace trireme

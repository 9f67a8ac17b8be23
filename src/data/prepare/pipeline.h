// Runs readers, workers and writers on parts. A lane reads one part at a time, cuts it into blocks and queues them for the
// workers, which serve all lanes. The worker that finishes the block a part's file needs next writes it, and any finished blocks
// after it.
//
// The first workers have a lane each. They read if few blocks are queued, and otherwise process blocks like the other workers. So
// there are exactly as many threads as workers, and none waits for a core.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "data/prepare/block_reader.h"
#include "data/prepare/block_worker.h"
#include "data/prepare/plan.h"

namespace trireme::prepare {

struct PipelineSettings {
  int64_t workers = 1, lanes = 1;
  int64_t blocks = 4;  // maximum number of blocks
  ReaderSettings reader;
  WorkerSettings worker;
};

// Progress counters; any thread may read them at any time.
struct Progress {
  std::atomic<int64_t> bytes_read{0};   // of the input files as stored
  std::atomic<int64_t> input_bytes{0};  // decompressed and already written
  std::atomic<int64_t> tokens{0}, documents{0};
  std::atomic<int64_t> earlier_input_bytes{0}, earlier_tokens{0};  // the share that an earlier run did
};

struct StageTimes {  // CPU seconds over all threads
  double read = 0, parse = 0, tokenize = 0, write = 0;
};

class Pipeline {
 public:
  Pipeline(const Plan& plan, const PipelineSettings& settings, const Tokenizer& tokenizer);
  ~Pipeline();

  // Processes the parts. `watch` is called about ten times per second; if it returns false, the run stops at a point from which
  // it can be resumed. Returns whether all parts are finished. Rethrows the error of any thread after all threads have stopped.
  bool run(const std::vector<int64_t>& parts, const std::function<bool()>& watch);

  const Progress& progress() const { return progress_; }
  const StageTimes& times() const { return times_; }

 private:
  class Lane;
  struct Job {
    Block* block = nullptr;
    Lane* lane = nullptr;
  };
  enum class State : uint8_t {
    running,
    stopping,  // starts no new blocks; finishes the queued ones
    failed,    // drops everything
  };

  void work(Lane* lane);
  void read_parts(Lane& lane);
  void work_on(const Job& job, BlockWorker& worker);
  void set_state(State state);
  void fail(std::exception_ptr error);
  Block* take_free_block(Lane& lane);
  bool take_large(Lane& lane);
  bool help(Lane& lane);
  // Processes blocks until ready(), which is called under the lock, returns true. Returns false if the run ends first.
  template <class Ready>
  bool help_until(Lane& lane, std::unique_lock<std::mutex>& lock, const Ready& ready);
  void free_block(Block* block);
  void add_job(Job job);
  Job take_job();

  const Plan& plan_;
  PipelineSettings settings_;
  const Tokenizer& tokenizer_;
  Progress progress_;
  StageTimes times_;

  std::mutex mutex_;
  std::condition_variable free_changed_, jobs_changed_, lanes_changed_;
  std::atomic<State> state_ = State::running;  // written only under the mutex
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> free_;
  bool large_taken_ = false;  // at most one large block exists at a time
  std::deque<Job> jobs_;
  std::deque<int64_t> parts_;  // not started
  std::vector<std::unique_ptr<Lane>> lanes_;
  int64_t lanes_at_work_ = 0;
};

}  // namespace trireme::prepare

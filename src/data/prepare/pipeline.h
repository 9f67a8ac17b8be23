// Readers, workers and writers at work on parts. A lane reads one part at a time, cuts it into blocks and gives them to the
// workers, who serve all lanes; whoever finishes the block that a part's file needs next writes it, and those after it that wait.
// The first workers have a lane each: they read when few blocks are waiting for the others, and else work on blocks as all do, so
// that there are as many threads as workers and none of them waits for another's turn on a core.
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
  int64_t blocks = 4;  // at most this many exist
  ReaderSettings reader;
  WorkerSettings worker;
};

// How far it came; read at any time from any thread.
struct Progress {
  std::atomic<int64_t> bytes_read{0};   // of the files as they are
  std::atomic<int64_t> input_bytes{0};  // unfolded, of what is written
  std::atomic<int64_t> tokens{0}, documents{0};
  std::atomic<int64_t> earlier_input_bytes{0}, earlier_tokens{0};  // of those, what an earlier run has done
};

struct StageTimes {  // seconds of CPU, over all threads
  double read = 0, parse = 0, tokenize = 0, write = 0;
};

class Pipeline {
 public:
  Pipeline(const Plan& plan, const PipelineSettings& settings, const Tokenizer& tokenizer);
  ~Pipeline();

  // Brings the parts to their ends. `watch` is called about ten times a second; when it says false the run is stopped where it
  // can go on later. Returns whether all parts are finished. What goes wrong in any thread is thrown here, after all have come to
  // rest.
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
    stopping,  // nothing new is begun; what is in blocks is finished
    failed,    // everything is dropped
  };

  void work(Lane* lane);
  void read_parts(Lane& lane);
  void work_on(const Job& job, BlockWorker& worker);
  void set_state(State state);
  void fail(std::exception_ptr error);
  Block* take_free_block(Lane& lane);
  bool take_large(Lane& lane);
  bool help(Lane& lane);
  // Works on blocks until ready(), which is asked under the lock; false: the run ends first.
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
  std::atomic<State> state_ = State::running;  // changed under the mutex
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> free_;
  bool large_taken_ = false;  // large blocks exist one at a time
  std::deque<Job> jobs_;
  std::deque<int64_t> parts_;  // not begun
  std::vector<std::unique_ptr<Lane>> lanes_;
  int64_t lanes_at_work_ = 0;
};

}  // namespace trireme::prepare

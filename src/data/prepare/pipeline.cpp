#include "data/prepare/pipeline.h"

#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/start_threads.h"
#include "data/prepare/part_writer.h"
#include "data/prepare/thread_time.h"

namespace trireme::prepare {
namespace {

constexpr double kSecondsBetweenSaves = 1;
constexpr std::chrono::milliseconds kWatchInterval{100};

}  // namespace

// Runs parts one at a time, from their files to their writer.
class Pipeline::Lane final : public BlockSink {
 public:
  explicit Lane(Pipeline& pipeline)
      : pipeline_(pipeline), reader_(pipeline.settings_.reader, *this, pipeline.progress_.bytes_read) {}

  // The lane's thread also uses this worker to process blocks.
  void set_worker(BlockWorker& worker) { worker_ = &worker; }
  void help(const Job& job) {
    const double start = thread_seconds();
    pipeline_.work_on(job, *worker_);
    helped_seconds_ += thread_seconds() - start;
  }

  void run_part(int64_t number) {
    const Plan& plan = pipeline_.plan_;
    const Part& part = plan.parts[static_cast<size_t>(number)];
    writer_.emplace(PartFiles::in(plan.work_folder, number));
    const PartState start = writer_->state();
    count_earlier_work(part, start);
    if (start.finished) return;
    put_ = next_ = 0;
    bool whole = true;
    for (int64_t unit = start.next.unit; whole && unit < part.end_unit - part.first_unit; ++unit) {
      const Unit& next = plan.units[static_cast<size_t>(part.first_unit + unit)];
      const Position from = unit == start.next.unit ? start.next : Position{.unit = unit};
      whole = reader_.read(plan.files[next.file], next, from, {start.unit_checksum, start.input_checksum});
      if (whole) require_unchanged(plan.files[next.file]);
    }
    wait_until_written();
    if (whole && next_ == put_)
      writer_->finish();
    else
      writer_->save();
  }

  // Called when a worker has finished a block. Writes all blocks whose turn it is.
  void complete(Block* block) {
    std::unique_lock lock(mutex_);
    done_[block->number] = block;
    // After a failure the lane has saved its journal, so nothing may be written.
    if (writing_ || pipeline_.state_ == State::failed) return;
    writing_ = true;
    try {
      while (!done_.empty() && done_.begin()->first == next_) {
        Block* const next = done_.begin()->second;
        done_.erase(done_.begin());
        lock.unlock();
        write(*next);
        pipeline_.free_block(next);
        lock.lock();
        ++next_;
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      writing_ = false;
      throw;
    }
    writing_ = false;
    written_.notify_all();
  }

  void wake() {
    const std::lock_guard lock(mutex_);
    written_.notify_all();
  }

  double write_seconds() const { return write_seconds_; }
  double helped_seconds() const { return helped_seconds_; }

  Block* fresh() override { return pipeline_.take_free_block(*this); }
  bool may_grow(Block&) override { return pipeline_.take_large(*this); }
  void put(Block* block) override {
    block->number = put_++;
    pipeline_.add_job({block, this});
  }

 private:
  void count_earlier_work(const Part& part, const PartState& state) {
    Progress& progress = pipeline_.progress_;
    progress.tokens += state.token_bytes / size_of(pipeline_.settings_.worker.type);
    progress.documents += state.documents;
    progress.input_bytes += state.input_bytes;
    progress.earlier_input_bytes += state.input_bytes;
    progress.earlier_tokens += state.token_bytes / size_of(pipeline_.settings_.worker.type);
    const int64_t end = state.finished ? part.end_unit : part.first_unit + state.next.unit;
    progress.bytes_read += pipeline_.plan_.bytes_of({.first_unit = part.first_unit, .end_unit = end});
  }

  static void require_unchanged(const InputFile& file) {
    auto now = find_stamp(file.path);
    if (now) now->status_changed = file.stamp.status_changed;  // a hard link made meanwhile updates only this field
    if (now && *now != file.stamp)
      throw UserError("{}: it changed while it was being read; wait until it is complete, and start again", file.path);
  }

  void wait_until_written() {
    while (pipeline_.help(*this)) continue;
    // The remaining blocks are being processed by other workers.
    std::unique_lock lock(mutex_);
    written_.wait(lock, [&] { return !writing_ && (next_ == put_ || pipeline_.state_ == State::failed); });
  }

  void write(Block& block) {
    const double start = thread_seconds();
    if (pipeline_.settings_.worker.on_error == OnError::stop)
      if (const Tally::Entry* error = block.tally.first_error()) throw UserError("{}", error->first);
    writer_->write(block);
    if (const double now = system_clock().seconds(); now > last_save_ + kSecondsBetweenSaves) {
      writer_->save();
      last_save_ = now;
    }
    Progress& progress = pipeline_.progress_;
    progress.tokens += static_cast<int64_t>(block.tokens.size()) / size_of(pipeline_.settings_.worker.type);
    progress.documents += std::ssize(block.document_tokens);
    progress.input_bytes += static_cast<int64_t>(block.bytes.size());
    write_seconds_ += thread_seconds() - start;
  }

  Pipeline& pipeline_;
  BlockReader reader_;
  std::optional<PartWriter> writer_;
  int64_t put_ = 0;  // blocks handed to the workers
  BlockWorker* worker_ = nullptr;
  double helped_seconds_ = 0;

  std::mutex mutex_;
  std::condition_variable written_;
  std::map<int64_t, Block*> done_;  // finished, but an earlier block is missing
  int64_t next_ = 0;                // the next block to be written
  bool writing_ = false;            // one thread writes at a time, outside the mutex
  double write_seconds_ = 0, last_save_ = system_clock().seconds();
};

Pipeline::Pipeline(const Plan& plan, const PipelineSettings& settings, const Tokenizer& tokenizer)
    : plan_(plan), settings_(settings), tokenizer_(tokenizer) {
  for (int64_t i = 0; i < settings.blocks; ++i) free_.push_back(blocks_.emplace_back(std::make_unique<Block>()).get());
}

Pipeline::~Pipeline() = default;

bool Pipeline::run(const std::vector<int64_t>& parts, const std::function<bool()>& watch) {
  parts_.assign(parts.begin(), parts.end());
  lanes_at_work_ = settings_.lanes;
  for (int64_t i = 0; i < settings_.lanes; ++i) lanes_.push_back(std::make_unique<Lane>(*this));
  {
    std::vector<std::jthread> threads;
    const auto lane_of = [&](int64_t i) { return i < settings_.lanes ? lanes_[static_cast<size_t>(i)].get() : nullptr; };
    start_threads(
        threads, std::max(settings_.workers, settings_.lanes), [&](int64_t i) { work(lane_of(i)); },
        [this] { set_state(State::failed); });
    std::unique_lock lock(mutex_);
    while (!lanes_changed_.wait_for(lock, kWatchInterval, [&] { return lanes_at_work_ == 0; })) {
      lock.unlock();
      if (!watch() && state_ == State::running) set_state(State::stopping);
      lock.lock();
    }
    jobs_changed_.notify_all();
  }
  for (const auto& lane : lanes_) times_.write += lane->write_seconds();
  if (error_) std::rethrow_exception(error_);
  return state_ == State::running;
}

// The body of a worker's thread; `lane` may be null.
void Pipeline::work(Lane* lane) {
  std::optional<BlockWorker> worker;
  double start = 0;
  try {
    worker.emplace(settings_.worker, tokenizer_);
    start = thread_seconds();
    if (lane != nullptr) {
      lane->set_worker(*worker);
      read_parts(*lane);
    }
  } catch (...) {
    fail(std::current_exception());
  }
  if (lane != nullptr) {
    const std::lock_guard lock(mutex_);
    times_.read += thread_seconds() - start - lane->helped_seconds();
    --lanes_at_work_;
    lanes_changed_.notify_all();
  }
  if (!worker) return;
  for (Job job = take_job(); job.block != nullptr; job = take_job()) work_on(job, *worker);
  const std::lock_guard lock(mutex_);
  times_.parse += worker->times().parse;
  times_.tokenize += worker->times().tokenize;
}

void Pipeline::read_parts(Lane& lane) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (state_ != State::running || parts_.empty()) return;
    const int64_t part = parts_.front();
    parts_.pop_front();
    lock.unlock();
    lane.run_part(part);
  }
}

void Pipeline::work_on(const Job& job, BlockWorker& worker) {
  try {
    worker.work(*job.block);
    job.lane->complete(job.block);
  } catch (...) {
    fail(std::current_exception());
  }
}

void Pipeline::set_state(State state) {
  {
    const std::lock_guard lock(mutex_);
    state_ = state;
  }
  free_changed_.notify_all();
  jobs_changed_.notify_all();
  for (const auto& lane : lanes_) lane->wake();
}

void Pipeline::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  set_state(State::failed);
}

// Processes a waiting block; returns false if there is none.
bool Pipeline::help(Lane& lane) {
  Job job;
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.empty() || state_ == State::failed) return false;
    job = jobs_.front();
    jobs_.pop_front();
  }
  lane.help(job);
  return true;
}

template <class Ready>
bool Pipeline::help_until(Lane& lane, std::unique_lock<std::mutex>& lock, const Ready& ready) {
  while (state_ == State::running) {
    if (ready()) return true;
    if (jobs_.empty()) {
      free_changed_.wait(lock);
      continue;
    }
    lock.unlock();
    help(lane);
    lock.lock();
  }
  return false;
}

Block* Pipeline::take_free_block(Lane& lane) {
  // Enough jobs for each other worker to have two while this thread processes a block.
  const auto enough = static_cast<size_t>(2 * (settings_.workers - settings_.lanes));
  std::unique_lock lock(mutex_);
  if (!help_until(lane, lock, [&] { return !free_.empty() && jobs_.size() <= enough; })) return nullptr;
  Block* const block = free_.back();
  free_.pop_back();
  return block;
}

bool Pipeline::take_large(Lane& lane) {
  std::unique_lock lock(mutex_);
  if (!help_until(lane, lock, [&] { return !large_taken_; })) return false;
  large_taken_ = true;
  return true;
}

void Pipeline::free_block(Block* block) {
  const bool large = block->size == Size::large;
  block->reset();
  const std::lock_guard lock(mutex_);
  if (large) large_taken_ = false;
  free_.push_back(block);
  free_changed_.notify_all();
}

void Pipeline::add_job(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(job);
  jobs_changed_.notify_one();
}

Pipeline::Job Pipeline::take_job() {
  std::unique_lock lock(mutex_);
  jobs_changed_.wait(lock, [&] { return !jobs_.empty() || lanes_at_work_ == 0 || state_ == State::failed; });
  if (jobs_.empty() || state_ == State::failed) return {};
  const Job job = jobs_.front();
  jobs_.pop_front();
  return job;
}

}  // namespace trireme::prepare

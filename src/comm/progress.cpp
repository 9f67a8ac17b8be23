#include "comm/progress.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/start_threads.h"

namespace trireme {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Backoff of the polling thread: no sleep at first, because most calls finish soon, then longer and longer, because ranks may
// share a core.
class Patience {
 public:
  void reset() { tries_ = 0; }
  void pause() {
    ++tries_;
    if (tries_ < 64)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(tries_ < 1000 ? 20 : 200));
  }

 private:
  int tries_ = 0;
};

// Adds the seconds until its end to `sum`, which only one thread changes.
class TimedWait {
 public:
  explicit TimedWait(std::atomic<double>& sum) : sum_(sum) {}
  ~TimedWait() { sum_ = sum_ + watch_.seconds(); }
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

 private:
  std::atomic<double>& sum_;
  Stopwatch watch_;
};

}  // namespace

Progress::Progress(Options options) : options_(options), random_(options.seed), thread_(start_thread([this] { run(); })) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  thread_.join();
}

void Progress::enqueue(const Call& call) {
  {
    std::unique_lock lock(mutex_);
    if (error_) leave(lock);
    Queue& queue = queues_[call.stream.number()];
    queue.entries.push_back({.call = call, .started = false, .number = 0, .not_before = {}});
    queue.enqueued += 1;
    left_ += 1;
    if (call.kind == Call::Kind::note_time) times_awaited_ += 1;
  }
  work_.notify_one();
}

uint64_t Progress::enqueued(Stream stream) const {
  const std::lock_guard lock(mutex_);
  return queues_[stream.number()].enqueued;
}

void Progress::wait(Stream stream, const Event& event) {
  if (stream == kCompute) return synchronize(event);  // ops run inline, so the compute stream is the calling thread
  if (stream == event.stream || reached(event)) return;
  enqueue({.kind = Call::Kind::wait, .event = event, .stream = stream, .from = {}, .to = {}});
}

void Progress::note_time(Stream stream, double* seconds) {
  if (stream == kCompute)
    *seconds = system_clock().seconds();
  else
    enqueue(
        {.kind = Call::Kind::note_time, .event = {}, .stream = stream, .from = {}, .to = {}, .messages = {}, .seconds = seconds});
}

void Progress::collect_times() {
  const TimedWait timed(waited_);
  std::unique_lock lock(mutex_);
  if (!moved_.wait_for(lock, timeout_, [&] { return error_ || times_awaited_ == 0; }))
    fail_with(std::make_exception_ptr(Failure("waited {} s for the times of calls between ranks", timeout_.count())));
  if (error_) leave(lock);
}

bool Progress::reached(const Event& event) const {
  const std::lock_guard lock(mutex_);
  return is_reached(event);
}

void Progress::synchronize(const Event& event) {
  const TimedWait timed(waited_);
  std::unique_lock lock(mutex_);
  const auto arrived = [&] { return error_ || is_reached(event); };
  awaited_ = event;
  const bool has_arrived = moved_.wait_for(lock, timeout_, arrived);
  awaited_.reset();
  if (!has_arrived) {
    const Entry entry = blocking(event.stream);
    lock.unlock();
    const std::string text = timeout_text(event, entry);
    lock.lock();
    fail_with(std::make_exception_ptr(Failure("{}", text)));
  }
  if (error_) leave(lock);
}

Progress::Entry Progress::blocking(Stream stream) const {
  for (size_t i = 0; i < kStreams; ++i) {
    const Queue& queue = queues_[stream.number()];
    if (queue.entries.empty()) break;
    const Entry& entry = queue.entries.front();
    if (entry.call.kind != Call::Kind::wait) return entry;  // times are written at once and never block
    stream = entry.call.event.stream;
  }
  return {};
}

std::string Progress::timeout_text(const Event& event, const Entry& entry) const {
  const CallGroup* group = entry.call.group;
  std::string text = fmt::format("waited {} s for \"{}\"; under way: {}", timeout_.count(), event.name,
                                 group != nullptr ? group->text(entry.call) : "nothing");
  if (group == nullptr) return text;
  const Awaited awaited = group->awaited(entry.call);
  const std::string missing = missing_text(awaited.ranks, group->id(), awaited.stream, entry.number);
  return missing.empty() ? text : text + "; " + missing;
}

std::string Progress::missing_text(const std::vector<int>& ranks, int group, Stream stream, uint64_t number) const {
  if (!missing_text_) return "";
  return missing_text_(ranks, {.group = group, .stream = static_cast<int>(stream.number()), .count = number});
}

bool Progress::waits() const {
  const std::lock_guard lock(mutex_);
  return awaited_ && !is_reached(*awaited_);
}

uint64_t Progress::count_call(int group, Stream stream) {
  const std::lock_guard lock(mutex_);
  return ++begun_[{group, static_cast<int>(stream.number())}];
}

std::chrono::seconds Progress::timeout() const {
  const std::lock_guard lock(mutex_);
  return timeout_;
}

void Progress::set_timeout(std::chrono::seconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

void Progress::set_missing_text(MissingText missing) {
  const std::lock_guard lock(mutex_);
  missing_text_ = std::move(missing);
}

std::vector<CallCount> Progress::begun() const {
  const std::lock_guard lock(mutex_);
  std::vector<CallCount> calls;
  for (const auto& [key, count] : begun_) calls.push_back({.group = key.first, .stream = key.second, .count = count});
  return calls;
}

void Progress::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  fail_with(std::move(error));
}

void Progress::fail_with(std::exception_ptr error) {
  if (!error_) error_ = std::move(error);
  work_.notify_all();
  moved_.notify_all();
}

void Progress::leave(std::unique_lock<std::mutex>& lock) {
  constexpr std::chrono::seconds kPatience{5};  // the transport may block if the other end is gone
  moved_.wait_for(lock, kPatience, [&] { return ended_; });
  std::rethrow_exception(error_);
}

void Progress::rethrow_failure() {
  std::unique_lock lock(mutex_);
  if (error_) leave(lock);
}

bool Progress::advance(Queue& queue) {
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    if (queue.entries.empty()) return false;
    entry = queue.entries.front();
  }
  bool done = false;
  if (entry.call.kind == Call::Kind::wait) {
    done = reached(entry.call.event);
  } else if (entry.call.kind == Call::Kind::note_time) {
    *entry.call.seconds = system_clock().seconds();
    done = true;
  } else {
    if (!entry.started) {
      if (!entry.call.group->ready(entry.call)) return false;
      entry.call.group->start(entry.call);
      if (options_.hostility == Hostility::late_completion)
        entry.not_before = SteadyClock::now() + std::chrono::microseconds(random_() % (random_() % 16 == 0 ? 3000 : 100));
      const std::lock_guard lock(mutex_);
      queue.entries.front().started = true;
      queue.entries.front().not_before = entry.not_before;
      queue.entries.front().number = ++begun_[{entry.call.group->id(), static_cast<int>(entry.call.stream.number())}];
    }
    // A delayed call does not receive what has arrived either, so its buffers keep their old contents.
    done = SteadyClock::now() >= entry.not_before && entry.call.group->advance(entry.call);
  }
  if (!done) return false;
  {
    const std::lock_guard lock(mutex_);
    queue.entries.pop_front();
    queue.done += 1;
    left_ -= 1;
    if (entry.call.kind == Call::Kind::note_time) times_awaited_ -= 1;
  }
  moved_.notify_all();
  return true;
}

void Progress::carry_out_calls() {
  Patience patience;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return stop_ || error_ || left_ > 0; });
      if (stop_ || error_) return;
    }
    bool moved = false;
    for (Queue& queue : queues_)
      while (advance(queue)) moved = true;
    if (moved)
      patience.reset();
    else
      patience.pause();
  }
}

void Progress::run() {
  try {
    carry_out_calls();
  } catch (...) {
    fail(std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  moved_.notify_all();
}

}  // namespace trireme

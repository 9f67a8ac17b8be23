// Carries out the communication of one rank. Calls wait in one queue per stream. One thread starts them in order, one at a time
// per stream, and polls those in flight, so that collectives overlap with compute.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backend/host_streams.h"
#include "base/ring.h"
#include "comm/call_count.h"
#include "comm/communicator.h"

namespace trireme {

class CallGroup;

// One collective or message.
struct Call {
  enum class Kind : uint8_t {
    wait,
    note_time,
    all_reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    send,
    receive,
    exchange,
    barrier
  };
  Kind kind = Kind::wait;
  CallGroup* group = nullptr;  // carries out the call; null for a wait or a time
  Event event;                 // what a wait is for, or a point on the device that must be reached before the call starts
  Stream stream;
  Tensor from, to;
  Reduce reduce = Reduce::sum;
  int peer = 0;                                                 // root of a broadcast, or the other rank of a send or receive
  std::array<Message, Communicator::kMostMessages> messages{};  // of an exchange; unused ones have no values
  double* seconds = nullptr;                                    // where a time is written
};

// The ranks of the world that must arrive for a call to be done, and the stream on which they arrive.
struct Awaited {
  std::vector<int> ranks;
  Stream stream;
};

// A group of ranks, as the progress thread sees it. Per stream a group has at most one call in flight.
class CallGroup {
 public:
  virtual ~CallGroup() = default;
  virtual int id() const { return 0; }  // the same on all its ranks
  virtual Awaited awaited(const Call& call) const { return {.ranks = {}, .stream = call.stream}; }
  virtual bool ready(const Call&) const { return true; }  // whether the call may start; polled until it may
  virtual void start(const Call& call) = 0;
  virtual bool advance(const Call& call) = 0;            // makes progress without blocking; true once the call is done
  virtual std::string text(const Call& call) const = 0;  // "all_reduce of [4,8] f32 in group tp (ranks 0, 1)"
};

// Tests delay completion by random amounts, so that a missing event becomes visible.
enum class Hostility : uint8_t { none, late_completion };

class Progress final : public HostStreams {
 public:
  struct Options {
    std::chrono::seconds timeout{600};  // of a single wait
    Hostility hostility = Hostility::none;
    uint64_t seed = 0;
  };

  Progress() : Progress(Options{}) {}
  explicit Progress(Options options);
  ~Progress() override;  // drops calls that are not done
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void enqueue(const Call& call);

  void set_timeout(std::chrono::seconds timeout);
  // Names the ranks that have begun fewer calls, for the message of a timeout.
  using MissingText = std::function<std::string(const std::vector<int>&, const CallCount&)>;
  void set_missing_text(MissingText missing);
  std::vector<CallCount> begun() const;              // calls begun so far, by group and stream
  bool waits() const;                                // whether a thread waits in synchronize(), for what has not happened yet
  double waited_seconds() const { return waited_; }  // in synchronize() and collect_times() so far
  // Counts a call made outside this object; returns its sequence number within (group, stream).
  uint64_t count_call(int group, Stream stream);
  // Names those of `ranks` that have begun fewer than `number` calls of the group on the stream; empty if that is unknown.
  std::string missing_text(const std::vector<int>& ranks, int group, Stream stream, uint64_t number) const;
  std::chrono::seconds timeout() const;
  // Makes every later wait and enqueue throw `error`. Calls that are not done are dropped: after a caller has received the error,
  // its memory is no longer touched. A timeout fails in the same way.
  void fail(std::exception_ptr error);
  void rethrow_failure();  // if there is one

  uint64_t enqueued(Stream stream) const override;
  void wait(Stream stream, const Event& event) override;
  void synchronize(const Event& event) override;
  void note_time(Stream stream, double* seconds) override;
  void collect_times() override;
  bool reached(const Event& event) const;

 private:
  struct Entry {
    Call call;
    bool started = false;
    uint64_t number = 0;                               // sequence number within (group, stream), from 1; set at the start
    std::chrono::steady_clock::time_point not_before;  // earliest completion, with late_completion
  };
  struct Queue {
    Ring<Entry> entries;
    uint64_t enqueued = 0, done = 0;
  };

  void run();
  void carry_out_calls();                                       // until stopped or failed
  void fail_with(std::exception_ptr error);                     // the caller holds the mutex
  [[noreturn]] void leave(std::unique_lock<std::mutex>& lock);  // rethrows the failure once the thread has stopped
  bool advance(Queue& queue);                                   // true if there was progress
  Entry blocking(Stream stream) const;                          // the call that the stream's first entry waits for
  std::string timeout_text(const Event& event, const Entry& entry) const;
  bool is_reached(const Event& event) const { return queues_[event.stream.number()].done >= event.ticket; }

  const Options options_;
  mutable std::mutex mutex_;
  std::chrono::seconds timeout_ = options_.timeout;
  MissingText missing_text_;
  std::atomic<double> waited_ = 0;
  std::map<std::pair<int, int>, uint64_t> begun_;  // by group and stream
  std::condition_variable work_, moved_;
  std::array<Queue, kStreams> queues_;
  uint64_t left_ = 0;             // entries in all queues
  uint64_t times_awaited_ = 0;    // entries of kind note_time
  std::optional<Event> awaited_;  // in synchronize()
  std::exception_ptr error_;
  bool stop_ = false;
  bool ended_ = false;  // the thread no longer touches any memory of a call
  std::mt19937_64 random_;
  std::thread thread_;  // last, so that it starts after all members above are initialised
};

}  // namespace trireme

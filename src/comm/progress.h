// Carries out the communication of one rank. Calls wait in a queue per stream; one thread starts them in order, one at a time per
// stream, and keeps asking those under way, so that collectives go on while the rank computes.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
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
  CallGroup* group = nullptr;  // who carries it out; none for a wait or a time
  Event event;                 // what a wait is for, or a point on a device before which the call must not start
  Stream stream;
  Tensor from, to;
  Reduce reduce = Reduce::sum;
  int peer = 0;                                                 // root of a broadcast, partner of a message
  std::array<Message, Communicator::kMostMessages> messages{};  // of an exchange: those that have values
  double* seconds = nullptr;                                    // where a time goes
};

// Who must come for a call to be done: ranks of the world, and the stream of theirs that they come on.
struct Awaited {
  std::vector<int> ranks;
  Stream stream;
};

// A group of ranks, as the progress thread sees it. Each stream has at most one call of a group under way.
class CallGroup {
 public:
  virtual ~CallGroup() = default;
  virtual int id() const { return 0; }  // the same on all its ranks
  virtual Awaited awaited(const Call& call) const { return {.ranks = {}, .stream = call.stream}; }
  virtual bool ready(const Call&) const { return true; }  // whether it may start; asked until it may
  virtual void start(const Call& call) = 0;
  virtual bool advance(const Call& call) = 0;            // goes on as far as it can; true once it is done
  virtual std::string text(const Call& call) const = 0;  // "all_reduce of [4,8] f32 in group tp (ranks 0, 1)"
};

// Tests make completion late by random amounts, so that a missing event shows.
enum class Hostility : uint8_t { none, late_completion };

class Progress final : public HostStreams {
 public:
  struct Options {
    std::chrono::seconds timeout{600};  // for one wait
    Hostility hostility = Hostility::none;
    uint64_t seed = 0;
  };

  Progress() : Progress(Options{}) {}
  explicit Progress(Options options);
  ~Progress() override;  // calls that are not done are dropped
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void enqueue(const Call& call);

  void set_timeout(std::chrono::seconds timeout);
  // Says who of the ranks has not begun as many calls, for the message of a wait that took too long.
  using MissingText = std::function<std::string(const std::vector<int>&, const CallCount&)>;
  void set_missing_text(MissingText missing);
  std::vector<CallCount> begun() const;  // calls so far, of all groups and streams
  // A call that somebody else carries out, counted with the others: the how manyth of its group and stream it is.
  uint64_t count_call(int group, Stream stream);
  // Who of `ranks` has begun fewer than `number` calls there, as words; empty where nobody knows.
  std::string missing_text(const std::vector<int>& ranks, int group, Stream stream, uint64_t number) const;
  std::chrono::seconds timeout() const;
  // Whoever waits or enqueues from now on gets this. Calls that are not done are dropped: once somebody got it, nothing of theirs
  // is touched any more. A wait that takes too long fails in the same way.
  void fail(std::exception_ptr error);
  void rethrow_failure();  // if there was one

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
    uint64_t number = 0;                               // among the calls of its group and stream, from 1; once started
    std::chrono::steady_clock::time_point not_before;  // of its completion, in hostile mode
  };
  struct Queue {
    Ring<Entry> entries;
    uint64_t enqueued = 0, done = 0;
  };

  void run();
  void carry_out_calls();                                       // until it is stopped or fails
  void fail_with(std::exception_ptr error);                     // the mutex is held
  [[noreturn]] void leave(std::unique_lock<std::mutex>& lock);  // rethrows the failure when the thread has let go
  bool advance(Queue& queue);                                   // true if anything moved
  Entry blocking(Stream stream) const;                          // what the first call of the stream waits for
  std::string timeout_text(const Event& event, const Entry& entry) const;
  bool is_reached(const Event& event) const { return queues_[event.stream.number()].done >= event.ticket; }

  const Options options_;
  mutable std::mutex mutex_;
  std::chrono::seconds timeout_ = options_.timeout;
  MissingText missing_text_;
  std::map<std::pair<int, int>, uint64_t> begun_;  // by group and stream
  std::condition_variable work_, moved_;
  std::array<Queue, kStreams> queues_;
  uint64_t left_ = 0;           // entries in all queues
  uint64_t times_awaited_ = 0;  // entries of kind note_time
  std::exception_ptr error_;
  bool stop_ = false;
  bool ended_ = false;  // the thread touches nothing any more
  std::mt19937_64 random_;
  std::thread thread_;  // last, so that it starts with everything above in place
};

}  // namespace trireme

// The control plane: small messages between rank 0 and every other rank over TCP, beside the data path. The ranks tell each other
// what is said once (who runs where, the folder of the run, the shards of a checkpoint), see whether the others live, and learn
// why the job ends. Nothing of it is waited for in a training step.
//
//   every second   each rank tells rank 0, and rank 0 everybody, that it lives, its step, and how many calls it has begun in
//                  each group: from that follows who did not arrive where a rank waits too long
//   a rank dies    its connection closes; rank 0 says so at once, for the launcher may give the others no more than a second,
//                  and tells the others; all leave with the same line
//   a rank fails   it tells rank 0, which tells the others; of several failures the first counts
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/call_count.h"
#include "comm/meeting.h"

namespace trireme {

// Whether the process ends by force some seconds after the job has, if whoever computes does not notice.
enum class LastResort : uint8_t { none, exit_process };

class Control {
 public:
  Control();                                         // alone
  Control(Company company, LastResort last_resort);  // of ranks that have met
  ~Control();  // says goodbye: what happens to this rank from now on is no failure of the job
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(places_.size()); }
  const std::vector<RankPlace>& places() const { return places_; }  // by rank
  std::string name_of(int rank) const;                              // "rank 3 (node7, process 4711)"

  // Every rank makes these calls in the same order for the same key. They throw JobEnded, also when a rank is silent.
  std::vector<std::string> gather(const std::string& key, const std::string& text);  // all texts on rank 0, nothing on the others
  std::string share(const std::string& key, const std::string& text);                // that of rank 0
  std::string first_of(const std::string& key, const std::string& text);             // of the lowest rank whose text is not empty

  void set_timeout(std::chrono::seconds timeout);  // how long a rank may be silent while another waits for it
  void set_step(int64_t steps_done) { step_ = steps_done; }
  // What heartbeats say, and what is done when the job ends; both are called by this object's thread.
  void connect(std::function<std::vector<CallCount>()> calls, std::function<void(const JobEnd&)> on_end);

  // Asked by this object's thread, several times a second, until it answers: its answer ends the job on all ranks.
  void set_watch(std::function<std::optional<JobEnd>()> watch);

  // Who of `ranks` has begun fewer than `count` calls there, as words: "rank 2 (node7, process 4711) did not arrive".
  std::string missing_text(const std::vector<int>& ranks, const CallCount& call);

  void require_going_on() const;  // throws JobEnded if the job has ended

  // This rank cannot go on. Returns what all ranks leave with: this, or what happened before. `is_own` is false for a failure
  // that may be a consequence of another rank's.
  JobEnd settle(const JobEnd& mine, bool is_own);
  bool speaks() const;                // whether this rank is the one that prints
  void say(const std::string& line);  // prints why the job ends, once, if this rank is that one
  void wait_for_speaker();            // returns when that one has left, or after some seconds

 private:
  using Clock = std::chrono::steady_clock;
  struct Beat {
    int64_t step = -1;  // steps done; -1: none is begun
    std::vector<CallCount> calls;
  };
  struct Peer {
    TcpConnection connection;
    std::mutex sending;
    Clock::time_point heard;
    Beat beat;
    bool left = false, lost = false;  // after a goodbye, or without one
  };

  void run();
  void take_messages(int from);
  void handle(int from, const TcpMessage& message);
  void lose(int rank);
  void send(int to, uint8_t kind, const std::string& text);
  void send_beats();
  void ask_watch();
  void notice_pause(Clock::time_point before);
  Clock::duration silence_of(int rank) const;
  std::vector<int> living() const;  // peers that can be reached
  bool declare(const JobEnd& end);  // false if it has ended before
  void exit_if_overdue();
  std::string take(int from, const std::string& key);
  std::string missing_here(const std::vector<int>& ranks, const CallCount& call);  // on rank 0
  bool has_begun(int rank, const CallCount& call);
  Peer& peer(int rank) { return *peers_[static_cast<size_t>(rank)]; }

  int rank_ = 0;
  std::vector<RankPlace> places_;
  LastResort last_resort_ = LastResort::none;
  std::atomic<int64_t> step_ = -1;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank: all others on rank 0, and rank 0 on the others

  mutable std::mutex mutex_;  // of all below, and of what peers were heard to say
  std::condition_variable changed_;
  std::chrono::seconds timeout_{600};
  std::map<std::pair<int, std::string>, std::deque<std::string>> mail_;  // by sender and key
  std::optional<JobEnd> end_;
  Clock::time_point ended_at_;
  bool others_told_ = false;     // why, on rank 0
  bool told_by_rank_0_ = false;  // why the job ends: then rank 0 prints it
  bool rank_0_silent_ = false;   // when this rank had to tell it of a failure
  bool has_spoken_ = false;
  std::function<std::vector<CallCount>()> calls_;
  std::function<void(const JobEnd&)> on_end_;
  std::function<std::optional<JobEnd>()> watch_;
  Clock::time_point quiet_until_{};  // after this process stood still: the others may have left for it and said why
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last, so that it starts with everything above in place
};

}  // namespace trireme

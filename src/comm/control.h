// The control plane: small TCP messages between rank 0 and every other rank, separate from the data path. It shares what is
// exchanged once (who runs where, the folder of the run, the shards of a checkpoint), detects dead ranks, and tells all ranks why
// the job ends. No training step waits for it.
//
//   every second   each rank sends rank 0 a heartbeat: what it is doing (activity.h) and how many calls it has begun in each
//                  group. So a rank that times out can name the ranks that did not arrive.
//   a rank hangs   its heartbeats show no progress, or stop (rank_watch.h). Rank 0 names it, and ends the job if it does not
//                  continue. Rank 0 itself is judged by the others.
//   a rank dies    its connection closes. Rank 0 prints that at once, because the launcher may give the others only a second, and
//                  tells the others. All ranks leave with the same line.
//   a rank fails   it tells rank 0, which tells the others. Of several failures the first counts.
//
// If rank 0 is gone, its deputy speaks: the first rank on another machine, or rank 1. Rank 0 tells it every second where all
// ranks are.
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

#include "base/process.h"
#include "comm/call_count.h"
#include "comm/meeting.h"
#include "comm/rank_watch.h"

namespace trireme {

// What is known of a rank, for the post-mortem of a job.
struct RankSeen {
  std::string name;  // "rank 3 (node7, process 4711)"
  Activity activity;
  double silence = 0;  // seconds since its last heartbeat
  bool is_gone = false;
};

// How a failed job is reported. `place` is added to the line that is printed; then `write` is called, on the rank that speaks.
// `hangs` is called on a rank that the job ends for because it hangs.
struct EndReport {
  std::string place;  // "post-mortem: runs/demo/post-mortem-2.txt"
  std::function<void(const JobEnd&)> write;
  std::function<void()> hangs;
};

// Whether the process exits by force some seconds after the end of the job, in case the computing thread does not notice it.
enum class LastResort : uint8_t { none, exit_process };

class Control {
 public:
  Control();                                         // a job of one rank
  Control(Company company, LastResort last_resort);  // ranks that have met
  ~Control();                                        // says goodbye, so that this rank's exit is not a failure of the job
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(places_.size()); }
  const std::vector<RankPlace>& places() const { return places_; }  // by rank
  std::string name_of(int rank) const;                              // "rank 3 (node7, process 4711)"

  // Every rank makes these calls in the same order for the same key. They throw JobEnded, also when a rank stays silent.
  std::vector<std::string> gather(const std::string& key, const std::string& text);  // all texts on rank 0, nothing on the others
  std::string share(const std::string& key, const std::string& text);                // the text of rank 0
  std::string first_of(const std::string& key, const std::string& text);             // of the lowest rank that has one

  // What has to be added to times of this rank's Clock to get those of rank 0's. Rank 0 answers without making this call.
  double offset_to_rank_0();

  void set_timeout(std::chrono::seconds timeout);  // how long a rank may be silent while another waits for it
  ActivityBoard& activity() { return board_; }     // where the thread that trains says what it is doing
  // What heartbeats carry of the communication of this rank: the calls that it has begun, and whether it waits for other ranks.
  struct Communication {
    std::vector<CallCount> calls;
    bool waits = false;
  };
  // `on_end` runs when the job ends. This object's thread calls both.
  void connect(std::function<Communication()> communication, std::function<void(const JobEnd&)> on_end);
  // From now on ranks that make no progress end the job.
  enum class Hangs : uint8_t { ignored, found };
  void set_hangs(Hangs hangs);

  // This object's thread calls `watch` several times per second until it returns a value. That value ends the job on all ranks.
  void set_watch(std::function<std::optional<JobEnd>()> watch);

  void set_end_report(EndReport report);
  std::vector<RankSeen> seen() const;  // by rank; on other ranks than 0 and its deputy only of rank 0 and itself

  // Names those of `ranks` that have begun fewer calls than `call` says: "rank 2 (node7, process 4711) did not arrive".
  std::string missing_text(const std::vector<int>& ranks, const CallCount& call);

  void require_going_on() const;  // throws JobEnded if the job has ended

  // Reports that this rank cannot continue. Returns what all ranks leave with: `mine`, or an earlier end. `is_own` is false for a
  // failure that may be a consequence of another rank's.
  JobEnd settle(const JobEnd& mine, bool is_own);
  bool speaks() const;          // whether this rank prints why the job ends
  void say(const JobEnd& end);  // prints and reports why the job ends, once, if this rank speaks()
  void wait_for_speaker();      // returns when the rank that speaks has left, or after some seconds

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    TcpConnection connection;
    std::mutex sending;
    Clock::time_point heard;
    std::vector<CallCount> calls;
    bool left = false, lost = false;  // left: said goodbye; lost: closed without one
  };

  void run();
  void take_messages(int from);
  void handle(int from, const TcpMessage& message);
  void lose(int rank);
  void send(int to, uint8_t kind, const std::string& text);
  void send_beats();
  std::string beat_for(int other) const;
  void ask_watch();
  void observe();
  void judge();
  void note_silent_rank_0();
  void notice_pause(Clock::time_point before);
  Clock::duration silence_of(int rank) const;
  std::vector<int> living() const;  // ranks that can be reached
  bool declare(const JobEnd& end);  // false if the job had already ended
  void exit_if_overdue();
  std::string take(int from, const std::string& key);
  std::string missing_here(const std::vector<int>& ranks, const CallCount& call);  // on rank 0
  bool has_begun(int rank, const CallCount& call);
  Peer& peer(int rank) { return *peers_[static_cast<size_t>(rank)]; }

  int rank_ = 0;
  std::vector<RankPlace> places_;
  int deputy_ = 0;  // speaks if rank 0 is gone
  LastResort last_resort_ = LastResort::none;
  ActivityBoard board_{system_clock(), process_age_seconds()};
  const std::thread::id owner_ = std::this_thread::get_id();
  std::atomic<int> owner_waits_ = 0;          // for mail
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank: all others on rank 0, and rank 0 on the others

  std::timed_mutex speaking_;

  mutable std::mutex mutex_;  // guards all below, and what peers have sent
  std::condition_variable changed_;
  std::chrono::seconds timeout_{600};
  std::map<std::pair<int, std::string>, std::deque<std::string>> mail_;  // by sender and key
  std::optional<JobEnd> end_;
  Clock::time_point ended_at_;
  bool others_told_ = false;     // on rank 0: the others have been told why the job ends
  bool told_by_rank_0_ = false;  // rank 0 has told why the job ends, so rank 0 prints it
  bool rank_0_silent_ = false;   // rank 0 did not answer when this rank reported a failure
  bool has_spoken_ = false;
  EndReport report_;
  std::function<Communication()> communication_;
  Communication own_;  // when it was last asked
  RankWatch watch_ranks_;
  Hangs hangs_ = Hangs::ignored;
  std::function<void(const JobEnd&)> on_end_;
  std::function<std::optional<JobEnd>()> watch_;
  Clock::time_point quiet_until_{};  // set after this process was stopped: the others may have left and said why
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last, so that it starts after all members above are initialised
};

}  // namespace trireme

// Finds ranks that hang: alive, but without progress. Each rank says with its heartbeats what it does and for how long nothing of
// that has changed. Rank 0 judges all ranks; the others judge rank 0 by its silence.
//
//   a rank that waits for another one    is never the one that hangs; if all wait, the job hangs and no rank is named
//   a rank in a step or a validation     hangs if it makes no progress for some median steps
//   a rank in another phase              may take its time: files, compilers and data are not under its control
//   a rank whose process is stopped      is silent, and its machine still answers
//   a machine that does not answer       may come back: a link that is mended, a switch that restarts
//
// A rank is named first. If it continues, that is said and nothing has happened; else the job ends.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/activity.h"

namespace trireme {

inline constexpr int kWholeJob = -1;

struct HangFinding {
  enum class Kind : uint8_t { lags, continues, hangs };
  Kind kind = Kind::lags;
  int rank = 0;             // kWholeJob: no rank lags behind the others
  double seconds = 0;       // without progress
  double seconds_left = 0;  // until the job ends; 0: it does not end for this
  std::string text;         // what it was doing, and how it is stuck
};

// All times are seconds of one steady clock.
class RankWatch {
 public:
  RankWatch(int rank, int size, double now);

  // Several times per second: what this rank does.
  void observe(Activity own, double now);
  void hear(int rank, const Activity& activity, double now);  // its heartbeat
  void leave_out(int rank);                                   // it has left or died
  // This process did not run for a while, or this machine was asleep: what it missed counts against no rank.
  void forgive(double now);

  const Activity& of(int rank) const { return ranks_[static_cast<size_t>(rank)].activity; }
  double silence_of(int rank, double now) const { return now - ranks_[static_cast<size_t>(rank)].heard; }
  // Whether this rank itself hangs, as the others would judge it.
  bool hangs_here(double median_step) const;

  // What is new. `answers(rank)`: its machine acknowledges what is sent to it.
  std::vector<HangFinding> judge(double now, double median_step, const std::function<bool(int)>& answers);

  // Seconds without progress after which a rank is named; after twice as many the job ends.
  static double patience(double median_step);
  static constexpr double kBeatSeconds = 1;

 private:
  struct Rank {
    Activity activity;
    double heard = 0, unanswered_at = 0;  // its last heartbeat; when its machine last did not answer
    bool is_named = false, has_left = false;
  };
  struct Trouble {
    double seconds = 0, limit = 0;  // no limit: 0
    std::string text;
  };

  std::optional<Trouble> trouble_of_all(double now, double patience) const;
  void report(const std::optional<Trouble>& trouble, int rank, bool& is_named, std::vector<HangFinding>& found) const;
  std::optional<Trouble> trouble_of(int rank, double now, double patience, const std::function<bool(int)>& answers);

  int rank_;
  double moved_at_;  // this rank
  std::vector<Rank> ranks_;
  double returned_at_ = -1e9;  // when a rank was heard again that had been silent
  bool job_is_named_ = false;
};

}  // namespace trireme

// Finds the fastest way to do each part of repeated work, when only the time of the whole is known. Most runs change one part;
// every third run changes nothing and is the baseline. Each round drops the slower ways. A winner must be faster than the
// baseline by more than the noise. At the end all winners are tried together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace trireme {

class ChoiceTrials {
 public:
  static constexpr int kNoPart = -1, kAllParts = -2;
  struct Run {
    int part = kNoPart;  // the part that is changed; kAllParts: all parts as best() says
    int choice = 0;
  };

  // `choices` has the number of ways of each part. Way 0 is the baseline.
  explicit ChoiceTrials(const std::vector<int>& choices);

  Run next();                                             // how to do the work this time
  void report(const Run& run, double seconds);            // in the order of the runs, any number of runs later
  bool done() const { return done_; }                     // from then on next() always returns the baseline
  const std::vector<int>& best() const { return best_; }  // the way of each part, 0 until winners are known
  double seconds_always() const;                          // median of recent baseline runs
  double seconds_best() const;                            // with all parts as best() says
  int64_t expected_runs() const { return expected_runs_; }

 private:
  struct Option {
    int part = 0, choice = 0;
    std::vector<double> ratios;  // of the run's time to the baseline's
  };

  void begin_round();
  void end_round();
  void keep_faster_half();
  void choose_winners();
  void begin_trial_of_all();

  size_t round_ = 0;
  std::vector<Option> options_;  // ways that are not dropped; those of one part are adjacent
  std::vector<Run> queue_;       // of this round
  size_t begun_ = 0, reported_ = 0;
  int64_t runs_ = 0, expected_runs_ = 0;
  std::deque<double> always_;  // seconds of recent baseline runs
  std::vector<double> noise_;  // ratios of baseline runs to the baseline runs before them
  std::vector<double> all_;    // ratios of runs with all winners
  std::vector<int> best_;
  bool done_ = false;
};

}  // namespace trireme

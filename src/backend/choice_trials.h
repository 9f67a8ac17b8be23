// Which of several ways to do each part of a piece of work is the fastest, where the work is done again and again and only the
// time of the whole is known. Most runs do one part in another way than always; every third does all as always, to compare with.
// The slower ways drop out round by round, what is left has to be faster by more than the noise, and in the end all that were
// found are tried together.
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
    int part = kNoPart;  // the one that is done in another way; kAllParts: all of them as best() says
    int choice = 0;
  };

  // How many ways there are for each part. Way 0 is how it is always done.
  explicit ChoiceTrials(const std::vector<int>& choices);

  Run next();                                             // how to do the work this time
  void report(const Run& run, double seconds);            // may come any number of runs later, in the order of the runs
  bool done() const { return done_; }                     // from then on next() always says: as always
  const std::vector<int>& best() const { return best_; }  // the way for each part, 0 for all until winners are known
  double seconds_always() const;                          // of recent runs, the median
  double seconds_best() const;                            // of all parts as best() says
  int64_t expected_runs() const { return expected_runs_; }

 private:
  struct Option {
    int part = 0, choice = 0;
    std::vector<double> ratios;  // to the time of the work as it is always done
  };

  void begin_round();
  void end_round();
  void keep_faster_half();
  void choose_winners();
  void begin_trial_of_all();

  size_t round_ = 0;
  std::vector<Option> options_;  // still in the race; those of a part lie together
  std::vector<Run> queue_;       // of this round
  size_t begun_ = 0, reported_ = 0;
  int64_t runs_ = 0, expected_runs_ = 0;
  std::deque<double> always_;  // seconds of the last runs without a change
  std::vector<double> noise_;  // how far such a run was from those before it, as a ratio
  std::vector<double> all_;    // ratios of runs with all winners
  std::vector<int> best_;
  bool done_ = false;
};

}  // namespace trireme

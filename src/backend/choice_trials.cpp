#include "backend/choice_trials.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/median.h"

namespace trireme {
namespace {

constexpr std::array kRunsOfRound{1, 2, 5};  // per option
constexpr int kRunsOfAll = 9;
constexpr int64_t kAlwaysEvery = 3;
constexpr size_t kFewest = 3, kMost = 9;  // how many baseline runs a ratio is computed from

// The standard deviation of a normal distribution with the same median distance from 1. A single disturbed run hardly changes it.
double deviation(const std::vector<double>& values) {
  if (values.empty()) return 0;
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - 1));
  return 1.4826 * median(distances);
}

int64_t half_of(int64_t count) { return (count + 1) / 2; }

}  // namespace

ChoiceTrials::ChoiceTrials(const std::vector<int>& choices) : best_(choices.size(), 0) {
  int64_t trials = kRunsOfAll;
  for (size_t part = 0; part < choices.size(); ++part) {
    CHECK(choices[part] >= 1);
    for (int choice = 1; choice < choices[part]; ++choice)
      options_.push_back({.part = static_cast<int>(part), .choice = choice, .ratios = {}});
    int64_t left = choices[part] - 1;
    for (const int runs : kRunsOfRound) {
      trials += runs * left;
      left = half_of(left);
    }
  }
  expected_runs_ = options_.empty() ? 0 : static_cast<int64_t>(kFewest) + trials * kAlwaysEvery / (kAlwaysEvery - 1);
  if (options_.empty())
    done_ = true;
  else
    begin_round();
}

void ChoiceTrials::begin_round() {
  queue_.clear();
  begun_ = reported_ = 0;
  for (int run = 0; run < kRunsOfRound[round_]; ++run)
    for (const Option& option : options_) queue_.push_back({.part = option.part, .choice = option.choice});
}

void ChoiceTrials::begin_trial_of_all() {
  queue_.assign(kRunsOfAll, Run{.part = kAllParts});
  begun_ = reported_ = 0;
}

ChoiceTrials::Run ChoiceTrials::next() {
  const bool compares = runs_++ % kAlwaysEvery == 0;
  if (done_ || compares || always_.size() < kFewest || begun_ == queue_.size()) return {};
  return queue_[begun_++];
}

void ChoiceTrials::report(const Run& run, double seconds) {
  if (run.part == kNoPart) {
    if (always_.size() >= kFewest) noise_.push_back(seconds / median(always_));
    always_.push_back(seconds);
    if (always_.size() > kMost) always_.pop_front();
    return;
  }
  const double ratio = seconds / median(always_);
  if (run.part == kAllParts)
    all_.push_back(ratio);
  else
    for (Option& option : options_)
      if (option.part == run.part && option.choice == run.choice) option.ratios.push_back(ratio);
  if (++reported_ == queue_.size()) end_round();
}

void ChoiceTrials::end_round() {
  if (!all_.empty()) {
    if (median(all_) >= 1) std::ranges::fill(best_, 0);  // the winners together are slower than the baseline
    done_ = true;
    return;
  }
  if (round_ + 1 < kRunsOfRound.size()) {
    keep_faster_half();
    ++round_;
    return begin_round();
  }
  choose_winners();
  if (std::ranges::all_of(best_, [](int choice) { return choice == 0; }))
    done_ = true;
  else
    begin_trial_of_all();
}

void ChoiceTrials::keep_faster_half() {
  std::vector<Option> kept;
  for (auto begin = options_.begin(); begin != options_.end();) {
    const auto end = std::find_if(begin, options_.end(), [&](const Option& option) { return option.part != begin->part; });
    std::sort(begin, end, [](const Option& a, const Option& b) { return median(a.ratios) < median(b.ratios); });
    kept.insert(kept.end(), begin, begin + half_of(end - begin));
    begin = end;
  }
  options_ = std::move(kept);
}

void ChoiceTrials::choose_winners() {
  constexpr double kErrors = 1.5, kErrorOfMedian = 1.2533;
  std::vector<double> fastest(best_.size(), 1);
  for (const Option& option : options_) {
    const double error = kErrorOfMedian * deviation(noise_) / std::sqrt(static_cast<double>(option.ratios.size()));
    const double ratio = median(option.ratios);
    const auto part = static_cast<size_t>(option.part);
    if (ratio >= 1 - kErrors * error || ratio >= fastest[part]) continue;
    fastest[part] = ratio;
    best_[part] = option.choice;
  }
}

double ChoiceTrials::seconds_always() const { return median(always_); }

double ChoiceTrials::seconds_best() const { return seconds_always() * (all_.empty() || median(all_) >= 1 ? 1 : median(all_)); }

}  // namespace trireme

#include "backend/choice_trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>

namespace trireme {
namespace {

using Seconds = std::function<double(const std::vector<int>&)>;  // of the work with these ways to do its parts

constexpr double kNoise = 0.002;  // as steps of a large model have

// Does the work until the trials are done; times become known eight runs late. Says how many runs it took.
int64_t finish(ChoiceTrials& trials, const Seconds& seconds) {
  constexpr size_t kLate = 8;
  std::mt19937 random(17);
  std::normal_distribution<double> disturbed(1, kNoise);
  std::deque<std::pair<ChoiceTrials::Run, double>> unknown;
  int64_t runs = 0;
  while (!trials.done() && runs < 10'000) {
    const ChoiceTrials::Run run = trials.next();
    ++runs;
    std::vector<int> ways(trials.best().size(), 0);
    if (run.part == ChoiceTrials::kAllParts) ways = trials.best();
    if (run.part >= 0) ways[static_cast<size_t>(run.part)] = run.choice;
    unknown.emplace_back(run, seconds(ways) * disturbed(random));
    if (unknown.size() <= kLate) continue;
    trials.report(unknown.front().first, unknown.front().second);
    unknown.pop_front();
  }
  return runs;
}

Seconds sum_of(const std::vector<std::vector<double>>& parts) {
  return [=](const std::vector<int>& ways) {
    double sum = 0;
    for (size_t part = 0; part < parts.size(); ++part) sum += parts[part][static_cast<size_t>(ways[part])];
    return sum;
  };
}

TEST(ChoiceTrials, FindsTheFasterWayOfEachPart) {
  ChoiceTrials trials({4, 1, 6, 3});
  // The first part has one way that is 5% faster, the third one that is 10% faster; the last is done best as it is.
  const auto runs = finish(trials, sum_of({{1, 1.02, 0.95, 1.1}, {2}, {1, 1.01, 1, 1, 0.9, 0.96}, {1, 1.03, 1.2}}));
  EXPECT_TRUE(trials.done());
  EXPECT_EQ(trials.best(), (std::vector<int>{2, 0, 4, 0}));
  EXPECT_NEAR(trials.seconds_best() / trials.seconds_always(), 4.85 / 5, 3 * kNoise);
  EXPECT_LT(runs, trials.expected_runs() + 40) << "each of four rounds waits for times that are not yet known";
}

TEST(ChoiceTrials, KeepsWhatIsFastest) {
  ChoiceTrials trials({3, 3});
  finish(trials, sum_of({{1, 1.004, 1.006}, {1, 1.004, 1.005}}));
  EXPECT_TRUE(trials.done());
  EXPECT_EQ(trials.best(), (std::vector<int>{0, 0}));
  EXPECT_EQ(trials.seconds_best(), trials.seconds_always());
}

// Half of the ways that are as fast as the first look faster; one in fifteen does by more than the noise.
TEST(ChoiceTrials, TakesNoiseForWhatItIs) {
  constexpr size_t kAlike = 20;
  std::vector<std::vector<double>> parts(kAlike + 1, {1, 1});
  parts.back() = {1, 0.7};
  ChoiceTrials trials(std::vector<int>(parts.size(), 2));
  finish(trials, sum_of(parts));
  EXPECT_EQ(trials.best().back(), 1);
  EXPECT_LE(std::count(trials.best().begin(), trials.best().end() - 1, 1), 4);
}

TEST(ChoiceTrials, KeepsWhatItHasWhenTheWinnersAreSlowTogether) {
  ChoiceTrials trials({2, 2});
  finish(trials, [](const std::vector<int>& ways) { return ways[0] + ways[1] == 2 ? 1.1 : ways[0] + ways[1] == 1 ? 0.9 : 1.0; });
  EXPECT_TRUE(trials.done());
  EXPECT_EQ(trials.best(), (std::vector<int>{0, 0}));
  EXPECT_EQ(trials.seconds_best(), trials.seconds_always());
}

// A device that grows warm: in the end the work takes longer than it did in the beginning, whatever is chosen.
TEST(ChoiceTrials, FollowsWorkThatBecomesSlower) {
  std::vector<std::vector<double>> parts(12, {1, 1.2});
  parts[5] = {1, 0.6};
  const Seconds cold = sum_of(parts);
  ChoiceTrials trials(std::vector<int>(parts.size(), 2));
  int64_t runs = 0;
  finish(trials, [&](const std::vector<int>& ways) { return cold(ways) * (1 + 0.0005 * static_cast<double>(runs++)); });
  std::vector<int> expected(parts.size(), 0);
  expected[5] = 1;
  EXPECT_EQ(trials.best(), expected);
}

TEST(ChoiceTrials, IsDoneWhereNothingIsToBeChosen) {
  ChoiceTrials trials({1, 1, 1});
  EXPECT_TRUE(trials.done());
  EXPECT_EQ(trials.expected_runs(), 0);
  EXPECT_EQ(trials.next().part, ChoiceTrials::kNoPart);
}

}  // namespace
}  // namespace trireme

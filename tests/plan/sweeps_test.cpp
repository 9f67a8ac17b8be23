// Measured runs that differ in their layout only.
#include "plan/sweeps.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

struct Measured {
  double predicted, seconds;
};

// Rows of one model, each with a TP of its own, so that their layouts have names.
std::vector<Sweep> sweep(const std::vector<Measured>& rows, const std::vector<Measured>& of_another_batch = {}) {
  std::vector<PreparedRun> runs;
  const auto add = [&](const std::vector<Measured>& more, int64_t batch) {
    for (const Measured& row : more) {
      PreparedRun& run = runs.emplace_back();
      run.run = {.source = "s", .model = "gpt", .gpus = 64, .global_batch = batch, .step_seconds = row.seconds};
      run.run.tp = std::ssize(runs);
    }
  };
  add(rows, 8), add(of_another_batch, 16);
  Evaluation evaluation;
  for (size_t i = 0; i < runs.size(); ++i)
    evaluation.rows.push_back(
        {.run = &runs[i], .predicted = i < rows.size() ? rows[i].predicted : of_another_batch[i - rows.size()].predicted});
  return sweeps_of(evaluation);
}

TEST(Sweeps, SayHowMuchSlowerTheChosenLayoutIs) {
  const auto found = sweep({{1, 10.2}, {2, 10}, {3, 12}, {4, 13}, {5, 14}});
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].runs, 5);
  EXPECT_NEAR(found[0].loss_pct, 2, 1e-9);
  EXPECT_NEAR(found[0].rank_correlation, 0.9, 1e-9);  // 1 - 6 * 2 / (5 * 24)
  EXPECT_EQ(found[0].chosen.substr(0, 4), "TP 1");
  EXPECT_EQ(found[0].fastest.substr(0, 4), "TP 2");
}

TEST(Sweeps, OrdersThatAreTurnedAroundHaveMinusOne) {
  const auto found = sweep({{5, 1}, {4, 2}, {3, 3}, {2, 4}, {1, 5}});
  EXPECT_NEAR(found.at(0).rank_correlation, -1, 1e-9);
  EXPECT_NEAR(found.at(0).loss_pct, 400, 1e-9);
}

TEST(Sweeps, EqualTimesShareTheirPlace) {
  EXPECT_NEAR(sweep({{1, 2}, {1, 2}, {1, 2}, {2, 3}, {3, 4}}).at(0).rank_correlation, 1, 1e-9);
}

TEST(Sweeps, AnotherBatchIsAnotherSweepAndFewRunsAreNone) {
  const std::vector<Measured> five = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}};
  EXPECT_EQ(sweep(five, five).size(), 2);
  EXPECT_EQ(sweep(five, {{1, 1}}).size(), 1);
  EXPECT_EQ(text_of(std::vector<Sweep>{}), "");
}

}  // namespace
}  // namespace trireme

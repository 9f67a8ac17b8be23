#include "serve/history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace trireme {
namespace {

constexpr int64_t kEver = std::numeric_limits<int64_t>::max();

std::vector<Point> counting(int64_t first, int64_t count) {
  std::vector<Point> points;
  for (int64_t i = 0; i < count; ++i) points.push_back({.step = first + i, .value = static_cast<double>((first + i) % 1000)});
  return points;
}

TEST(History, KeepsExtremesOfAnyRange) {
  std::mt19937 draw(7);
  History history;
  std::vector<Point> points;
  for (int64_t step = 0; step < 20'000; ++step) points.push_back({step, static_cast<double>(draw() % 100'000)});
  for (size_t at = 0; at < points.size(); at += 777)
    history.add(
        {points.begin() + static_cast<int64_t>(at), points.begin() + static_cast<int64_t>(std::min(at + 777, points.size()))});
  for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, kEver}, {5000, 15'321}, {777, 790}, {19'999, 19'999}}) {
    const size_t group = history.group_for(first, last, 100);
    const ThinnedSeries thinned = history.groups(first, last, group);
    EXPECT_LE(thinned.steps.size(), 200u + 3);
    for (size_t i = 0; i < thinned.steps.size(); ++i) {
      EXPECT_EQ(thinned.steps[i] % static_cast<int64_t>(group), 0);
      double low = 1e9, high = -1, sum = 0;
      int64_t count = 0;
      for (int64_t step = thinned.steps[i]; step < std::min<int64_t>(thinned.steps[i] + static_cast<int64_t>(group), 20'000);
           ++step) {
        const double value = points[static_cast<size_t>(step)].value;
        low = std::min(low, value), high = std::max(high, value), sum += value, ++count;
      }
      EXPECT_NEAR(thinned.values[i], sum / static_cast<double>(count), 1e-2);  // float's precision of sums of 1e5
      if (group == 1) continue;
      EXPECT_EQ(thinned.low[i], low);
      EXPECT_EQ(thinned.high[i], high);
    }
  }
}

TEST(History, GroupsOfALongerHistoryAreTheSameAndMore) {
  History history;
  history.add(counting(0, 5000));
  const ThinnedSeries before = history.groups(0, kEver, 8);
  history.add(counting(5000, 100));
  const ThinnedSeries after = history.groups(0, kEver, 8);
  ASSERT_GT(after.steps.size(), before.steps.size());
  for (size_t i = 0; i < before.steps.size(); ++i) EXPECT_EQ(before.values[i], after.values[i]);
}

TEST(History, OfARepeatedStepTheLaterValueCounts) {
  History history;
  history.add(counting(0, 1000));
  history.add({{.step = 10, .value = 5}, {.step = 2000, .value = 6}});
  history.add({{.step = 1500, .value = 7}, {.step = 2000, .value = 8}});
  EXPECT_EQ(history.size(), 1002u);
  EXPECT_EQ(history.at_or_before(10), 5);
  EXPECT_EQ(history.at_or_before(1999), 7);
  EXPECT_EQ(history.back().value, 8);
  EXPECT_EQ(history.groups(0, kEver, 1024).values[0] < 500, true);
  history.forget_from(500);
  EXPECT_EQ(history.size(), 500u);
  EXPECT_EQ(history.back().step, 499);
  EXPECT_EQ(history.at_or_before(-1), std::nullopt);
}

TEST(History, MarksWhatIsNotFinite) {
  History history;
  history.add({{0, 1}, {1, std::nan("")}, {2, HUGE_VAL}, {3, 3}});
  const ThinnedSeries all = history.groups(0, kEver, 4);
  EXPECT_EQ(all.values, std::vector<double>{2});
  EXPECT_EQ(all.nonfinite, (std::vector<int64_t>{1, 2}));
  history.add({{1, 2}});
  EXPECT_EQ(history.groups(0, kEver, 4).nonfinite, std::vector<int64_t>{2});
  EXPECT_EQ(history.recent_median(2), 3);
  std::string text;
  append_json(text, history.groups(0, kEver, 1), "\"more\":1,");
  EXPECT_EQ(nlohmann::json::parse(text)["values"], nlohmann::json::parse("[1, 2, null, 3]"));
}

TEST(History, AnEmptyOneHasNothing) {
  const History history;
  EXPECT_TRUE(history.groups(0, kEver, history.group_for(0, kEver, 100)).steps.empty());
  EXPECT_EQ(history.recent_median(5), 0);
}

}  // namespace
}  // namespace trireme

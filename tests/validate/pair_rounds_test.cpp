// Rounds of pairs, and who is to blame for slow ones.
#include "validate/pair_rounds.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace trireme {
namespace {

TEST(PairRounds, EveryPairOnceAndNoPartTwiceInARound) {
  for (int count = 2; count <= 17; ++count) {
    std::set<Pair> all;
    const auto rounds = pair_rounds(count);
    EXPECT_EQ(std::ssize(rounds), count + count % 2 - 1);
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_TRUE(a < b && b < count);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << "of " << count;
        EXPECT_TRUE(all.insert({a, b}).second) << a << " - " << b << " twice, of " << count;
      }
      EXPECT_EQ(std::ssize(busy), count - count % 2) << "only one part of an odd count sits out";
    }
    EXPECT_EQ(std::ssize(all), count * (count - 1) / 2);
  }
}

TEST(PairRounds, OneAloneHasNoPartner) {
  EXPECT_TRUE(pair_rounds(1).empty());
  EXPECT_EQ(rounds_to_run(1, Depth::full), 0);
}

// All pairs of the rounds that are run at rate 100, or what `rate_of` says.
template <class RateOf>
Blame blame_with(int count, Depth depth, const RateOf& rate_of) {
  std::vector<PairRate> rates;
  const auto rounds = pair_rounds(count);
  for (int round = 0; round < rounds_to_run(count, depth); ++round)
    for (const Pair& pair : rounds[static_cast<size_t>(round)]) rates.push_back({pair, rate_of(pair)});
  return blame(rates, count, 0.5 * reference_of(rates, count));
}

TEST(Blame, NamesTheSlowPartAndNotItsPartners) {
  for (int count = 3; count <= 16; ++count)
    for (const Depth depth : {Depth::quick, Depth::full})
      for (int bad = 0; bad < count; ++bad) {
        const Blame found =
            blame_with(count, depth, [&](const Pair& pair) { return pair.first == bad || pair.second == bad ? 10.0 : 100.0; });
        EXPECT_EQ(found.parts, std::vector<int>{bad}) << "of " << count;
        EXPECT_TRUE(found.links.empty() && found.unsure.empty()) << "of " << count;
      }
}

TEST(Blame, NamesTwoSlowParts) {
  const Blame found = blame_with(8, Depth::full, [](const Pair& pair) {
    return pair.first == 2 || pair.second == 2 || pair.first == 5 || pair.second == 5 ? 10.0 : 100.0;
  });
  EXPECT_EQ(found.parts, (std::vector<int>{2, 5}));
}

TEST(Blame, NamesTheLinkWhenBothPartsAreFastWithOthers) {
  for (const int count : {4, 5, 16}) {
    const Blame found = blame_with(count, Depth::full, [](const Pair& pair) { return pair == Pair{1, 3} ? 10.0 : 100.0; });
    EXPECT_TRUE(found.parts.empty()) << "of " << count;
    ASSERT_EQ(found.links.size(), 1u) << "of " << count;
    EXPECT_EQ(found.links.front().pair, (Pair{1, 3}));
  }
}

TEST(Blame, TheBestOfSeveralTriesCounts) {
  const Blame found = blame({{{0, 1}, 100}, {{0, 2}, 100}, {{1, 2}, 10}, {{1, 2}, 98}}, 3, 50);
  EXPECT_TRUE(found.parts.empty() && found.links.empty());
  EXPECT_EQ(slow_pairs({{{0, 1}, 100}, {{0, 2}, 100}, {{1, 2}, 10}}, 50), (std::vector<Pair>{{1, 2}}));
}

TEST(Blame, NothingMeasuredBlamesNothing) {
  EXPECT_EQ(reference_of({}, 4), 0);
  EXPECT_TRUE(blame({}, 0, 0).parts.empty());
}

}  // namespace
}  // namespace trireme

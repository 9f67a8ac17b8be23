#include "validate/pair_rounds.h"

#include <algorithm>
#include <bit>
#include <map>

namespace trireme {
namespace {

std::map<Pair, double> best_rates(const std::vector<PairRate>& rates) {
  std::map<Pair, double> best;
  for (const PairRate& one : rates) {
    double& rate = best[one.pair];
    rate = std::max(rate, one.rate);
  }
  return best;
}

struct Tally {
  int pairs = 0, slow = 0;
  double share() const { return pairs == 0 ? 0 : static_cast<double>(slow) / pairs; }
};

std::vector<Tally> tally(const std::map<Pair, double>& rates, int count, double limit) {
  std::vector<Tally> tallies(static_cast<size_t>(count));
  for (const auto& [pair, rate] : rates)
    for (const int part : {pair.first, pair.second}) {
      Tally& one = tallies[static_cast<size_t>(part)];
      ++one.pairs;
      one.slow += rate < limit ? 1 : 0;
    }
  return tallies;
}

}  // namespace

std::vector<std::vector<Pair>> pair_rounds(int count) {
  if (count < 2) return {};
  const int seats = count + count % 2;  // the last one of an odd count is empty
  std::vector<std::vector<Pair>> rounds;
  for (int round = 0; round + 1 < seats; ++round) {
    std::vector<Pair> pairs;
    // Seat 0 stays, the others move on around the table.
    const auto at = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1); };
    for (int seat = 0; seat < seats / 2; ++seat) {
      const Pair pair = std::minmax(at(seat), at(seats - 1 - seat));
      if (pair.second < count) pairs.push_back(pair);
    }
    std::ranges::sort(pairs);
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

int rounds_to_run(int count, Depth depth) {
  if (count < 2) return 0;
  const int all = count + count % 2 - 1;
  const int few = std::bit_width(static_cast<unsigned>(count)) + 1;
  return std::min(all, depth == Depth::quick ? few : std::max(few, 63));
}

double reference_of(const std::vector<PairRate>& rates, int count) {
  std::vector<double> best(static_cast<size_t>(count));
  for (const PairRate& one : rates)
    for (const int part : {one.pair.first, one.pair.second})
      best[static_cast<size_t>(part)] = std::max(best[static_cast<size_t>(part)], one.rate);
  std::erase(best, 0.0);  // not tested
  if (best.empty()) return 0;
  std::ranges::sort(best);
  return best[best.size() / 2];
}

Blame blame(const std::vector<PairRate>& rates, int count, double limit) {
  std::map<Pair, double> left = best_rates(rates);
  Blame found;
  const std::vector<Tally> first = tally(left, count, limit);
  while (true) {
    const std::vector<Tally> tallies = tally(left, count, limit);
    const auto worst = std::ranges::max_element(tallies, {}, &Tally::share);
    if (worst == tallies.end() || worst->slow < 2 || worst->share() <= 0.5) break;
    const int part = static_cast<int>(worst - tallies.begin());
    found.parts.push_back(part);
    std::erase_if(left, [&](const auto& one) { return one.first.first == part || one.first.second == part; });
  }
  for (const auto& [pair, rate] : left) {
    if (rate >= limit) continue;
    const bool is_only = first[static_cast<size_t>(pair.first)].pairs == 1 || first[static_cast<size_t>(pair.second)].pairs == 1;
    (is_only ? found.unsure : found.links).push_back({pair, rate});
  }
  std::ranges::sort(found.parts);
  return found;
}

std::vector<Pair> slow_pairs(const std::vector<PairRate>& rates, double limit) {
  std::vector<Pair> slow;
  for (const auto& [pair, rate] : best_rates(rates))
    if (rate < limit) slow.push_back(pair);
  return slow;
}

}  // namespace trireme

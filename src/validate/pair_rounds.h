// Which parts of a fleet are tested against which, and who is to blame for a slow pair.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace trireme {

using Pair = std::pair<int, int>;  // the lower number first

// Rounds in which every part has another partner each time, by the circle method; all pairs once over all rounds. With an odd
// count one part sits out each round, another one each time.
std::vector<std::vector<Pair>> pair_rounds(int count);

// How many of the rounds suffice: k rounds give every part k partners, and two already tell a part from a link.
enum class Depth : uint8_t { quick, full };
int rounds_to_run(int count, Depth depth);

struct PairRate {
  Pair pair;
  double rate = 0;
};

struct Blame {
  std::vector<int> parts;        // slow with most of their partners
  std::vector<PairRate> links;   // slow between two parts that are fast with others
  std::vector<PairRate> unsure;  // slow, and a part has no other pair to compare with
};

// Median over the parts of the best rate of each; the larger one of the middle, so that of two halves the faster one counts.
double reference_of(const std::vector<PairRate>& rates, int count);

// A pair is slow below `limit`. Pairs may be there several times; the best rate of each counts.
Blame blame(const std::vector<PairRate>& rates, int count, double limit);
std::vector<Pair> slow_pairs(const std::vector<PairRate>& rates, double limit);

}  // namespace trireme

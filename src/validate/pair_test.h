// Bandwidth between pairs of nodes, or of ranks on one node: each pair sends in both directions at once, all ranks of the two
// nodes together.
#pragma once

#include "comm/probe/collective_test.h"
#include "validate/pair_rounds.h"

namespace trireme {

struct PairRequest {
  std::vector<std::vector<int>> units;  // ranks of each node, or one rank each
  int64_t bytes = 0;                    // that every rank sends to its partner
  Depth depth = Depth::full;
  double least = 0;  // share of the reference below which a pair is slow, and is measured again
};

// In bytes per second and direction, the sum over the ranks of a node.
struct PairResult {
  std::vector<PairRate> rates;  // the best of each pair
  double reference = 0;         // of the rounds, without what was measured again
  Blame blame;
};

// All ranks call it together. The result is on rank 0.
PairResult run_pairs(RankGroup& here, const PairRequest& request);

}  // namespace trireme

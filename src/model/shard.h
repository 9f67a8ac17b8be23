// What a tensor-parallel rank holds of a parameter.
#pragma once

#include "model/parameter_table.h"

namespace trireme {

struct RankShard {
  int tp_rank = 0, tp_size = 1;  // who holds which part of the parameters
  int dp_rank = 0, dp_size = 1;  // who does which part of the optimizer's work
};

// A rectangle of the global tensor, and where its elements begin in the local one. In both the last dimension is fastest.
struct LocalPiece {
  Shape offset, extent;
  int64_t begin = 0;

  int64_t count() const { return extent.count(); }
};

struct LocalParameter {
  Shape shape;                     // in memory, with padding rows
  std::vector<LocalPiece> pieces;  // one, or one a segment (q,k,v or gate,up); padding is in none
};

LocalParameter local_part(const ParameterRow& row, const RankShard& shard);

}  // namespace trireme

// What a rank holds of the parameters.
#pragma once

#include "model/dims.h"
#include "model/parameter_table.h"

namespace trireme {

// A rectangle of the global tensor, and where its elements begin in the local one. In both the last dimension is fastest.
struct LocalPiece {
  Shape offset, extent;
  int64_t begin = 0;

  int64_t count() const { return extent.count(); }
};

struct LocalParameter {
  Shape shape;                     // in memory, with padding rows
  std::vector<LocalPiece> pieces;  // one, or one per segment (q,k,v or gate,up); without padding
};

LocalParameter local_part(const ParameterRow& row, const RankShard& shard);

bool holds(const ModelSettings& model, const ParameterRow& row, const RankShard& shard);
// Of several ranks that hold the same part of a parameter, one counts it in norms and saves it.
bool counts(const ParameterRow& row, const RankShard& shard);

}  // namespace trireme

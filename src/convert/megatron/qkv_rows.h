// Where Megatron keeps the rows of q, k and v.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "config/settings.h"

namespace trireme {

struct RowMove {
  int64_t ours = 0, theirs = 0, count = 0;
};

// Ours: q of all heads, k of all groups, v of all groups. Megatron's, since version 2 of its checkpoints: for each group, q of
// its heads, k, v.
inline std::vector<RowMove> rows_by_group(const ModelSettings& model) {
  const int64_t groups = model.groups(), width = model.head_width(), heads = div_exact(model.num_attention_heads, groups);
  std::vector<RowMove> moves;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t theirs = group * (heads + 2) * width;
    moves.push_back({group * heads * width, theirs, heads * width});
    moves.push_back({(model.num_attention_heads + group) * width, theirs + heads * width, width});
    moves.push_back({(model.num_attention_heads + groups + group) * width, theirs + (heads + 1) * width, width});
  }
  return moves;
}

// Version 1: for each head and each of its rows, q, k, v.
inline std::vector<RowMove> rows_split_last(const ModelSettings& model) {
  const int64_t rows = model.num_attention_heads * model.head_width();
  std::vector<RowMove> moves;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t part = 0; part < 3; ++part) moves.push_back({part * rows + row, row * 3 + part, 1});
  return moves;
}

}  // namespace trireme

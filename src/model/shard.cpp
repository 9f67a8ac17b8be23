#include "model/shard.h"

#include <algorithm>

namespace trireme {
namespace {

// Rows [begin, begin + count) of a parameter, all columns.
LocalPiece rows_of(const ParameterRow& row, int64_t begin, int64_t count, int64_t local_begin) {
  if (row.shape.rank() == 1) return {{begin}, {count}, local_begin};
  return {{begin, 0}, {count, row.shape[1]}, local_begin};
}

Shape with_rows(const ParameterRow& row, int64_t rows) { return row.shape.rank() == 1 ? Shape{rows} : Shape{rows, row.shape[1]}; }

LocalParameter cut_rows(const ParameterRow& row, const RankShard& shard) {
  const int64_t rows = div_exact(row.padded_rows, shard.tp_size), begin = shard.tp_rank * rows;
  LocalParameter local{.shape = with_rows(row, rows), .pieces = {}};
  // The last ranks may hold nothing but padding.
  const int64_t count = std::clamp<int64_t>(row.shape[0] - begin, 0, rows);
  if (count > 0) local.pieces.push_back(rows_of(row, begin, count, 0));
  return local;
}

LocalParameter cut_segments(const ParameterRow& row, const RankShard& shard) {
  LocalParameter local;
  int64_t global_begin = 0, local_rows = 0;
  for (const int64_t segment : row.segments) {
    const int64_t rows = div_exact(segment, shard.tp_size);
    const int64_t columns = row.shape.rank() == 1 ? 1 : row.shape[1];
    local.pieces.push_back(rows_of(row, global_begin + shard.tp_rank * rows, rows, local_rows * columns));
    global_begin += segment;
    local_rows += rows;
  }
  local.shape = with_rows(row, local_rows);
  return local;
}

}  // namespace

LocalParameter local_part(const ParameterRow& row, const RankShard& shard) {
  switch (row.cut) {
    case Cut::rows:
      return cut_rows(row, shard);
    case Cut::rows_in_segments:
      return cut_segments(row, shard);
    case Cut::columns: {
      const int64_t columns = div_exact(row.shape[1], shard.tp_size);
      const Shape shape{row.shape[0], columns};
      return {.shape = shape, .pieces = {{{0, shard.tp_rank * columns}, shape, 0}}};
    }
    case Cut::whole:
      break;
  }
  return {.shape = with_rows(row, row.padded_rows), .pieces = {rows_of(row, 0, row.shape[0], 0)}};
}

bool holds(const ModelSettings& model, const ParameterRow& row, const RankShard& shard) {
  switch (row.owner) {
    case Owner::first_stage:
      return shard.first_stage();
    case Owner::last_stage:
      return shard.last_stage();
    case Owner::first_and_last_stage:
      return shard.first_stage() || shard.last_stage();
    case Owner::block:
      break;
  }
  for (int64_t chunk = 0; chunk < shard.chunks; ++chunk) {
    const LayerRange layers = layers_of(model, shard, chunk);
    if (row.layer >= layers.first && row.layer < layers.first + layers.count) return true;
  }
  return false;
}

bool counts(const ParameterRow& row, const RankShard& shard) {
  if (shard.copy != 0) return false;
  return (row.cut != Cut::whole || shard.tp_rank == 0) && (row.owner != Owner::first_and_last_stage || shard.first_stage());
}

}  // namespace trireme

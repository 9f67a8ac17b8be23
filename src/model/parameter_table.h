// One row per parameter of the model. Initialisation, cutting over ranks, optimizer groups, checkpoints and reports all read this
// table.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "tensor/tensor.h"

namespace trireme {

enum class WeightDecay : uint8_t { no, yes };
enum class InitKind : uint8_t { zeros, ones, normal };
// How tensor parallelism cuts a parameter: not at all, by rows, by columns, or by rows inside each of its segments (q,k,v or
// gate,up).
enum class Cut : uint8_t { whole, rows, columns, rows_in_segments };
// Whether, under sequence parallelism, each TP rank sums the gradient over its own rows only.
enum class PartialGrad : uint8_t { no, yes };
// Which pipeline stages hold a parameter.
enum class Owner : uint8_t { first_stage, block, last_stage, first_and_last_stage };

struct ParameterRow {
  std::string name;
  Shape shape;              // true and global
  int64_t padded_rows = 0;  // rows in memory: the true ones and, for the vocabulary, padding that stays zero
  InitKind init = InitKind::zeros;
  double deviation = 0;  // of InitKind::normal
  WeightDecay decay = WeightDecay::no;
  Cut cut = Cut::whole;
  std::vector<int64_t> segments;  // rows of each, for rows_in_segments
  PartialGrad partial_grad = PartialGrad::no;
  Owner owner = Owner::block;
  int64_t layer = -1;  // of Owner::block

  int64_t count() const { return shape.count(); }
  int64_t padded_count() const { return count() / shape[0] * padded_rows; }
};

// In the order in which backward finishes their gradients: the head first, the embedding last.
std::vector<ParameterRow> parameter_table(const ModelSettings& model);

// With the padding rows, as the reference systems count.
int64_t parameter_count(const std::vector<ParameterRow>& table);

}  // namespace trireme

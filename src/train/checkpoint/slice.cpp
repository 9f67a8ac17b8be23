#include "train/checkpoint/slice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backend/backend.h"

namespace trireme {

void copy_elements(const void* from, const CheckpointTensor& to, int64_t begin, int64_t count) {
  const Tensor part = to.tensor.reshaped({to.tensor.count()}).rows(begin, count);
  if (to.backend != nullptr)
    to.backend->upload(kCompute, from, part);
  else
    std::memcpy(part.data, from, part.bytes());
}

TensorSlice TensorSlice::whole(const Shape& global) {
  const std::vector<int64_t> zeros(global.dims().size(), 0);
  return rectangle(global, Shape(zeros), global);
}

TensorSlice TensorSlice::rectangle(const Shape& global, const Shape& offset, const Shape& extent) {
  const TensorSlice slice{global, offset, extent, {0, extent.count()}};
  CHECK(slice.valid());
  return slice;
}

TensorSlice TensorSlice::part(int64_t begin, int64_t count) const {
  CHECK(is_rectangle());
  TensorSlice slice = *this;
  slice.range = {begin, count};
  CHECK(slice.valid());
  return slice;
}

bool TensorSlice::valid() const {
  if (global.rank() == 0 || offset.rank() != global.rank() || extent.rank() != global.rank()) return false;
  for (int i = 0; i < global.rank(); ++i)
    if (offset[i] > global[i] || extent[i] > global[i] - offset[i]) return false;
  return range.begin >= 0 && range.count >= 0 && range.begin <= extent.count() && range.count <= extent.count() - range.begin;
}

Shape TensorSlice::shape() const { return is_rectangle() ? extent : Shape{range.count}; }

std::string TensorSlice::text() const {
  std::vector<std::string> sides;
  for (int i = 0; i < global.rank(); ++i) sides.push_back(fmt::format("{}:{}", offset[i], offset[i] + extent[i]));
  std::string text = fmt::format("[{}] of {}", fmt::join(sides, ","), global);
  if (!is_rectangle()) text += fmt::format(", elements {}:{}", range.begin, range.begin + range.count);
  return text;
}

namespace {

using Coordinates = std::array<int64_t, Shape::kMaxRank>;

// Number of the element at a global position among the elements of the slice's rectangle.
int64_t index_in_rectangle(const TensorSlice& slice, const Coordinates& position) {
  int64_t index = 0;
  for (int i = 0; i < slice.global.rank(); ++i) index = index * slice.extent[i] + position[i] - slice.offset[i];
  return index;
}

}  // namespace

std::vector<CopyRun> common_runs(const TensorSlice& from, const TensorSlice& to) {
  CHECK(from.valid() && to.valid() && from.global == to.global);
  Coordinates begin{}, end{};  // of the rectangle that both share
  for (int i = 0; i < from.global.rank(); ++i) {
    begin[i] = std::max(from.offset[i], to.offset[i]);
    end[i] = std::min(from.offset[i] + from.extent[i], to.offset[i] + to.extent[i]);
    if (begin[i] >= end[i]) return {};
  }

  // Elements lie side by side along a dimension if both slices span all the dimensions after it alike.
  int inner = from.global.rank() - 1;
  int64_t length = end[inner] - begin[inner];
  while (inner > 0 && from.extent[inner] == to.extent[inner] && from.extent[inner] == end[inner] - begin[inner]) {
    --inner;
    length *= end[inner] - begin[inner];
  }

  std::vector<CopyRun> runs;
  for (Coordinates position = begin;;) {
    const int64_t from_index = index_in_rectangle(from, position) - from.range.begin;
    const int64_t to_index = index_in_rectangle(to, position) - to.range.begin;
    const int64_t first = std::max({int64_t{0}, -from_index, -to_index});
    const int64_t last = std::min({length, from.range.count - from_index, to.range.count - to_index});
    if (first < last) runs.push_back({from_index + first, to_index + first, last - first});
    int i = inner - 1;
    for (; i >= 0 && ++position[i] == end[i]; --i) position[i] = begin[i];
    if (i < 0) return runs;
  }
}

int64_t Coverage::add(const std::vector<CopyRun>& runs) {
  for (const CopyRun& run : runs) ranges_.push_back({run.to, run.count});
  std::ranges::sort(ranges_, {}, &FlatRange::begin);
  std::vector<FlatRange> merged;
  int64_t total = 0;
  for (const FlatRange& range : ranges_) {
    const int64_t end = merged.empty() ? 0 : merged.back().begin + merged.back().count;
    if (merged.empty() || range.begin > end) {
      merged.push_back(range);
      total += range.count;
    } else if (range.begin + range.count > end) {
      merged.back().count += range.begin + range.count - end;
      total += range.begin + range.count - end;
    }
  }
  ranges_ = std::move(merged);
  return total - std::exchange(covered_, total);
}

int64_t Coverage::first_gap() const { return ranges_.empty() || ranges_[0].begin > 0 ? 0 : ranges_[0].count; }

}  // namespace trireme

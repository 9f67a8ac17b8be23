// Which part of a global tensor somebody holds, and how to copy between two such parts, whatever layouts they come from.
#pragma once

#include <string>
#include <vector>

#include "backend/ops.h"
#include "tensor/tensor.h"

namespace trireme {

class Backend;

// A rectangle of the global tensor and, for states cut over data-parallel ranks, a range of the rectangle's elements, counted
// with the last dimension fastest.
struct TensorSlice {
  Shape global;
  Shape offset, extent;  // of the rectangle
  FlatRange range;

  static TensorSlice whole(const Shape& global);
  static TensorSlice rectangle(const Shape& global, const Shape& offset, const Shape& extent);
  TensorSlice part(int64_t begin, int64_t count) const;  // a range of the rectangle's elements

  bool valid() const;  // inside the global tensor
  bool is_rectangle() const { return range.begin == 0 && range.count == extent.count(); }
  int64_t count() const { return range.count; }
  Shape shape() const;       // of the elements held: the rectangle's, or [count] for a range of it
  std::string text() const;  // "[0:4,8:16] of [8,16]", with ", elements 3:9" for a range
};

// A tensor and the slice of a global tensor that its elements are: what is saved, or what loading fills.
struct CheckpointTensor {
  std::string name;  // of the global tensor
  TensorSlice slice;
  Tensor tensor;
  Backend* backend = nullptr;  // whose memory it is in; none: the host's
};

// Copies host elements into those from `begin` on that the slice of `to` holds.
void copy_elements(const void* from, const CheckpointTensor& to, int64_t begin, int64_t count);

// `count` elements that lie side by side in both slices; `from` and `to` count the elements that each slice holds.
struct CopyRun {
  int64_t from = 0, to = 0, count = 0;
};

// The elements that both slices of one global tensor hold, in rising order of `from`.
std::vector<CopyRun> common_runs(const TensorSlice& from, const TensorSlice& to);

// Which elements of a slice are there already.
class Coverage {
 public:
  int64_t add(const std::vector<CopyRun>& runs);  // their `to` elements; returns how many were not there before
  int64_t covered() const { return covered_; }
  int64_t first_gap() const;  // the first element that is not there

 private:
  std::vector<FlatRange> ranges_;  // rising, apart from each other
  int64_t covered_ = 0;
};

}  // namespace trireme

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "train/checkpoint/slice.h"

namespace trireme {
namespace {

// The global number of every element that a slice holds, in its order, by walking the whole tensor.
std::vector<int64_t> elements_of(const TensorSlice& slice) {
  std::vector<int64_t> in_rectangle;
  for (int64_t number = 0; number < slice.global.count(); ++number) {
    bool inside = true;
    int64_t rest = number;
    for (int i = slice.global.rank() - 1; i >= 0; --i) {
      const int64_t position = rest % slice.global[i];
      rest /= slice.global[i];
      inside = inside && position >= slice.offset[i] && position < slice.offset[i] + slice.extent[i];
    }
    if (inside) in_rectangle.push_back(number);
  }
  const auto begin = in_rectangle.begin() + slice.range.begin;
  return {begin, begin + slice.range.count};
}

TensorSlice random_slice(const Shape& global, std::mt19937& random) {
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  std::vector<int64_t> offset, extent;
  for (const int64_t dim : global.dims()) {
    offset.push_back(below(3) == 0 ? 0 : below(dim));
    extent.push_back(offset.back() == 0 && below(2) == 0 ? dim : 1 + below(dim - offset.back()));
  }
  const TensorSlice slice = TensorSlice::rectangle(global, Shape(offset), Shape(extent));
  if (below(2) == 0) return slice;
  const int64_t begin = below(slice.count());
  return slice.part(begin, 1 + below(slice.count() - begin));
}

// Copying by runs moves exactly the elements that both slices hold, each to its place.
TEST(CommonRuns, AgreeWithWalkingTheTensor) {
  std::mt19937 random(1);
  const std::vector<Shape> shapes = {{17}, {5, 7}, {4, 1, 6}, {3, 4, 2, 5}, {1, 1}};
  for (int trial = 0; trial < 2000; ++trial) {
    const Shape& global = shapes[static_cast<size_t>(trial) % shapes.size()];
    const TensorSlice from = random_slice(global, random), to = random_slice(global, random);
    SCOPED_TRACE(from.text() + " -> " + to.text());
    const std::vector<int64_t> from_elements = elements_of(from), to_elements = elements_of(to);
    std::vector<int64_t> copied(to_elements.size(), -1);
    int64_t expected_from = 0;
    for (const CopyRun& run : common_runs(from, to)) {
      ASSERT_GE(run.from, expected_from);
      expected_from = run.from + run.count;
      for (int64_t i = 0; i < run.count; ++i) copied.at(run.to + i) = from_elements.at(run.from + i);
    }
    for (size_t i = 0; i < copied.size(); ++i) {
      const bool shared = std::ranges::binary_search(from_elements, to_elements[i]);
      ASSERT_EQ(copied[i], shared ? to_elements[i] : -1) << i;
    }
  }
}

TEST(CommonRuns, WholeTensorsAreOneRun) {
  const TensorSlice whole = TensorSlice::whole({4, 8, 16});
  ASSERT_EQ(common_runs(whole, whole).size(), 1U);
  EXPECT_EQ(common_runs(whole, whole)[0].count, 4 * 8 * 16);
  // Rows of the first dimension lie side by side too.
  const TensorSlice rows = TensorSlice::rectangle({4, 8, 16}, {1, 0, 0}, {2, 8, 16});
  EXPECT_EQ(common_runs(whole, rows).size(), 1U);
}

TEST(TensorSlice, KnowsWhatLiesInside) {
  const Shape global{8, 16};
  EXPECT_THROW(TensorSlice::rectangle(global, {0, 8}, {8, 9}), std::logic_error);
  EXPECT_THROW(TensorSlice::rectangle(global, {0}, {8}), std::logic_error);
  EXPECT_THROW(TensorSlice::whole(global).part(100, 29), std::logic_error);
  EXPECT_THROW(TensorSlice::whole(global).part(-1, 2), std::logic_error);
  const TensorSlice rectangle = TensorSlice::rectangle(global, {0, 8}, {4, 8});
  EXPECT_EQ(rectangle.text(), "[0:4,8:16] of [8,16]");
  EXPECT_EQ(rectangle.part(3, 6).text(), "[0:4,8:16] of [8,16], elements 3:9");
  EXPECT_EQ(rectangle.part(3, 6).shape(), Shape{6});
  EXPECT_EQ(rectangle.part(0, 32).shape(), (Shape{4, 8}));
}

TEST(Coverage, CountsNewElementsOnceAndFindsTheGap) {
  Coverage coverage;
  EXPECT_EQ(coverage.first_gap(), 0);
  EXPECT_EQ(coverage.add({{0, 10, 5}}), 5);
  EXPECT_EQ(coverage.first_gap(), 0);
  EXPECT_EQ(coverage.add({{0, 0, 4}, {0, 12, 8}}), 4 + 5);  // 12..14 were there
  EXPECT_EQ(coverage.first_gap(), 4);
  EXPECT_EQ(coverage.add({{0, 11, 3}}), 0);
  EXPECT_EQ(coverage.add({{0, 4, 6}}), 6);
  EXPECT_EQ(coverage.first_gap(), 20);
  EXPECT_EQ(coverage.covered(), 20);
}

}  // namespace
}  // namespace trireme

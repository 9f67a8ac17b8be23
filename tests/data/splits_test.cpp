#include "data/splits.h"

#include <gtest/gtest.h>

#include "data/expect_user_error.h"

namespace trireme {
namespace {

std::array<Range, kSplits> ranges(const char* splits_string, int64_t count) {
  const SplitFractions fractions = parse_splits(splits_string);
  return {split_range(fractions, Split::train, count), split_range(fractions, Split::validation, count),
          split_range(fractions, Split::test, count)};
}

using Ranges = std::array<Range, kSplits>;

// Boundaries computed with numpy's sums and Python's round.
TEST(Splits, BoundariesAreMegatrons) {
  EXPECT_EQ(ranges("99990,8,2", 100000), (Ranges{Range{0, 99990}, {99990, 99998}, {99998, 100000}}));
  EXPECT_EQ(ranges("969,30,1", 10000), (Ranges{Range{0, 9690}, {9690, 9990}, {9990, 10000}}));
  EXPECT_EQ(ranges("1,1,1", 100000), (Ranges{Range{0, 33333}, {33333, 66667}, {66667, 100000}}));
  EXPECT_EQ(ranges("90,8,2", 1115395), (Ranges{Range{0, 1003856}, {1003856, 1093087}, {1093087, 1115395}}));
  EXPECT_EQ(ranges("99990,8,2", 9999), (Ranges{Range{0, 9998}, {9998, 9999}, {9999, 9999}}));
}

TEST(Splits, HalvesAreRoundedToEven) {
  EXPECT_EQ(ranges("1,1,2", 10), (Ranges{Range{0, 2}, {2, 5}, {5, 10}}));
  EXPECT_EQ(ranges("1,1", 5), (Ranges{Range{0, 2}, {2, 5}, {5, 5}}));
  EXPECT_EQ(ranges("1,2,1", 2), (Ranges{Range{0, 0}, {0, 2}, {2, 2}}));
}

// Made with NeMo's function.
TEST(Splits, LegacyRule) {
  const auto legacy = [](const std::string& text, int64_t count) {
    Ranges parts;
    for (const Split split : kAllSplits)
      parts[static_cast<size_t>(split)] = split_range(parse_splits(text), split, count, SplitRule::legacy);
    return parts;
  };
  EXPECT_EQ(legacy("99990,8,2", 100000), (Ranges{Range{0, 99990}, {99990, 99998}, {99998, 100000}}));
  EXPECT_EQ(legacy("1,1,1", 100000), (Ranges{Range{0, 33334}, {33334, 66667}, {66667, 100000}}));
  EXPECT_EQ(legacy("1,1,0", 3), (Ranges{Range{0, 1}, {1, 3}, {3, 3}}));
  EXPECT_EQ(legacy("1,1,0", 1), (Ranges{Range{0, 1}, {1, 1}, {1, 1}}));
}

TEST(Splits, OneValueTwoValuesAndSlashes) {
  EXPECT_EQ(ranges("1", 7), (Ranges{Range{0, 7}, {7, 7}, {7, 7}}));
  EXPECT_EQ(parse_splits("98/2/0"), parse_splits("98, 2"));
  EXPECT_EQ(parse_splits("0.5,0.25,0.25"), parse_splits("2,1,1"));
}

TEST(Splits, SumsThatRoundAboveOneStayInside) {
  const int64_t count = int64_t{1} << 62;
  const auto [train, validation, test] = ranges("0.1,0.7,0.2", count);
  EXPECT_EQ(train.end, validation.begin);
  EXPECT_EQ(validation.end, test.begin);
  EXPECT_LE(test.end, count);
}

TEST(Splits, WhatIsNotASplitIsRefused) {
  for (const char* text :
       {"", ",", "1,", ",1", "1,1,1,1", "-1,2", "a", "1;2", "0,0,0", "nan", "inf,1", "1e308,1e308", "90 8 2", "1,1,1,"})
    expect_user_error([&] { parse_splits(text); }, {"model.data.splits_string=", text, "99990,8,2"});
}

}  // namespace
}  // namespace trireme

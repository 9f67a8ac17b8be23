// model.data.splits_string: which part of a corpus belongs to training, validation and test.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace trireme {

enum class Split : uint8_t { train, validation, test };
inline constexpr size_t kSplits = 3;
const char* name_of(Split split);

// Elements [begin, end) of something: documents of a corpus, tokens of a text.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

using SplitFractions = std::array<double, kSplits>;  // they sum to 1

// "99990,8,2": one to three weights, separated by commas or slashes; absent ones are 0. UserError when it is not that.
SplitFractions parse_splits(const std::string& splits_string);

// The part of `count` elements that a split owns. Boundaries are running sums of the fractions times count, rounded half to
// even, as Megatron core has them.
Range split_range(const SplitFractions& fractions, Split split, int64_t count);

}  // namespace trireme

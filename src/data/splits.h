// model.data.splits_string: the shares of a corpus for training, validation and test.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace trireme {

enum class Split : uint8_t { train, validation, test };
inline constexpr size_t kSplits = 3;
inline constexpr std::array<Split, kSplits> kAllSplits{Split::train, Split::validation, Split::test};
const char* name_of(Split split);
const char* short_name_of(Split split);  // the reference systems' name in files: train, valid, test

// Elements [begin, end), such as documents of a corpus or tokens of a text.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

using SplitFractions = std::array<double, kSplits>;  // they sum to 1

// Parses "99990,8,2": one to three weights, separated by commas or slashes; missing ones are 0. UserError if malformed.
SplitFractions parse_splits(const std::string& splits_string);

// How elements are divided; both round half to even.
// core    boundaries are running sums of the fractions, times count, rounded: Megatron core
// legacy  each part is its fraction of count, rounded; the first part absorbs the difference to count: NeMo's own datasets
//         (model.data.legacy_dataset)
enum class SplitRule : uint8_t { core, legacy };

// Returns the range of `count` elements that belongs to a split.
Range split_range(const SplitFractions& fractions, Split split, int64_t count, SplitRule rule = SplitRule::core);

}  // namespace trireme

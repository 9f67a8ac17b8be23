// model.data.splits_string: which part of a corpus belongs to training, validation and test.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace trireme {

enum class Split : uint8_t { train, validation, test };
inline constexpr size_t kSplits = 3;
inline constexpr std::array<Split, kSplits> kAllSplits{Split::train, Split::validation, Split::test};
const char* name_of(Split split);
const char* short_name_of(Split split);  // as the reference systems name it in files: train, valid, test

// Elements [begin, end) of something: documents of a corpus, tokens of a text.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

using SplitFractions = std::array<double, kSplits>;  // they sum to 1

// "99990,8,2": one to three weights, separated by commas or slashes; absent ones are 0. UserError when it is not that.
SplitFractions parse_splits(const std::string& splits_string);

// How the elements are divided; both round half to even.
//   core    boundaries are running sums of the fractions, times count, rounded: Megatron core
//   legacy  each part is its fraction of count, rounded; what they are too many or too few together is taken from or given to the
//           first: NeMo's own datasets (model.data.legacy_dataset)
enum class SplitRule : uint8_t { core, legacy };

// The part of `count` elements that a split owns.
Range split_range(const SplitFractions& fractions, Split split, int64_t count, SplitRule rule = SplitRule::core);

}  // namespace trireme

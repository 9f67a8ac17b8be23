#include "data/splits.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/error.h"

namespace trireme {

const char* name_of(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::validation:
      return "validation";
    case Split::test:
      return "test";
  }
  return "unknown";
}

SplitFractions parse_splits(const std::string& splits_string) {
  const auto refuse = [&]() -> UserError {
    return UserError("model.data.splits_string={} is not one to three weights of train, validation and test, such as 99990,8,2",
                     splits_string);
  };
  SplitFractions weights{};
  size_t given = 0;
  const char* at = splits_string.c_str();
  while (true) {
    if (given == kSplits) throw refuse();
    char* after = nullptr;
    const double weight = std::strtod(at, &after);
    if (after == at || !std::isfinite(weight) || weight < 0) throw refuse();
    weights[given++] = weight;
    while (*after == ' ') ++after;
    if (*after == '\0') break;
    if (*after != ',' && *after != '/') throw refuse();
    at = after + 1;
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(sum > 0) || !std::isfinite(sum)) throw refuse();
  for (double& weight : weights) weight /= sum;
  return weights;
}

const char* short_name_of(Split split) { return split == Split::validation ? "valid" : name_of(split); }

namespace {

// nearbyint rounds half to even.
int64_t rounded_share(double fraction, int64_t count) {
  return static_cast<int64_t>(std::nearbyint(fraction * static_cast<double>(count)));
}

Range core_range(const SplitFractions& fractions, size_t split, int64_t count) {
  double begin = 0;
  for (size_t i = 0; i < split; ++i) begin += fractions[i];
  const double end = begin + fractions[split];
  // The running sum may exceed 1 by a rounding error, which is visible only for huge counts.
  return {std::min(count, rounded_share(begin, count)), std::min(count, rounded_share(end, count))};
}

Range legacy_range(const SplitFractions& fractions, size_t split, int64_t count) {
  std::array<int64_t, kSplits + 1> boundaries{};
  for (size_t i = 0; i < kSplits; ++i) boundaries[i + 1] = boundaries[i] + rounded_share(fractions[i], count);
  const int64_t surplus = boundaries[kSplits] - count;
  for (size_t i = 1; i <= kSplits; ++i) boundaries[i] = std::clamp<int64_t>(boundaries[i] - surplus, 0, count);
  return {boundaries[split], boundaries[split + 1]};
}

}  // namespace

Range split_range(const SplitFractions& fractions, Split split, int64_t count, SplitRule rule) {
  const auto number = static_cast<size_t>(split);
  return rule == SplitRule::core ? core_range(fractions, number, count) : legacy_range(fractions, number, count);
}

}  // namespace trireme

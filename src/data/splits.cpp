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

Range split_range(const SplitFractions& fractions, Split split, int64_t count) {
  double begin = 0;
  for (size_t i = 0; i < static_cast<size_t>(split); ++i) begin += fractions[i];
  const double end = begin + fractions[static_cast<size_t>(split)];
  // nearbyint rounds half to even. The running sum may pass 1 by a rounding error, which only a vast count would show.
  const auto boundary = [count](double fraction) {
    return std::min(count, static_cast<int64_t>(std::nearbyint(fraction * static_cast<double>(count))));
  };
  return {boundary(begin), boundary(end)};
}

}  // namespace trireme

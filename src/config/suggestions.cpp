#include "config/suggestions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace trireme {

int64_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the edit-distance table: distances between the first i letters of a and the first j of b.
  std::vector<int64_t> two_before, before(b.size() + 1), current(b.size() + 1);
  std::iota(before.begin(), before.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({before[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], two_before[j - 2] + 1);
    }
    two_before = before;
    before = current;
  }
  return before[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestWord = 200;  // longer words are not typing errors
  if (word.size() > kLongestWord) return {};
  const auto last_part = [](std::string_view key) { return key.substr(key.rfind('.') + 1); };
  int64_t best_distance = std::max<int64_t>(2, static_cast<int64_t>(word.size()) / 4) + 1;
  std::string best;
  for (const std::string& candidate : candidates) {
    const bool misplaced = last_part(candidate) == last_part(word);
    const int64_t distance = misplaced ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string candidate = nearest(word, candidates);
  return candidate.empty() ? std::string{} : fmt::format("; did you mean {}?", candidate);
}

}  // namespace trireme

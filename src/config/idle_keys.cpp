#include "config/idle_keys.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace trireme {

namespace {

bool is_at_or_below(std::string_view place, std::string_view above) {
  return place == above || (place.starts_with(above) && place[above.size()] == '.');
}

bool is_covered(const std::string& place, const std::set<std::string>& used) {
  return std::ranges::any_of(used, [&](const std::string& one) { return is_at_or_below(place, one); });
}

// The places that values with effect depend on. Follows chains of references until nothing is added.
std::set<std::string> used_places(const std::vector<IdleKey>& keys, const References& references) {
  const auto is_idle = [&](const std::string& place) {
    return std::ranges::any_of(keys, [&](const IdleKey& idle) { return is_at_or_below(place, idle.key); });
  };
  std::set<std::string> used;
  size_t before = 0;
  do {
    before = used.size();
    for (const auto& [by, target] : references)
      if (!is_idle(by) || is_covered(by, used)) used.insert(target);
  } while (used.size() > before);
  return used;
}

}  // namespace

std::vector<std::string> names_of(const std::vector<IdleKey>& keys) {
  std::vector<std::string> names;
  for (const IdleKey& idle : keys) names.push_back(idle.key);
  return names;
}

std::string idle_text(const std::vector<IdleKey>& keys, Detail detail) {
  if (keys.empty()) return {};
  std::string text = fmt::format("without effect here: {} key{}", keys.size(), keys.size() == 1 ? "" : "s");
  if (detail == Detail::count) return text + fmt::format(" (--verbose lists {})", keys.size() == 1 ? "it" : "them");
  std::vector<std::string> reasons;
  for (const IdleKey& idle : keys)
    if (std::ranges::find(reasons, idle.reason) == reasons.end()) reasons.push_back(idle.reason);
  for (const std::string& reason : reasons) {
    std::vector<std::string> names;
    for (const IdleKey& idle : keys)
      if (idle.reason == reason) names.push_back(idle.key);
    text += fmt::format("\n  {}: {}", reason, fmt::join(names, ", "));
  }
  return text;
}

std::vector<IdleKey> without_used(std::vector<IdleKey> keys, const Tree& recipe, const References& references) {
  const std::set<std::string> used = used_places(keys, references);
  std::vector<IdleKey> left;
  for (IdleKey& idle : keys) {
    if (is_covered(idle.key, used)) continue;
    const bool is_used_in_part = std::ranges::any_of(used, [&](const auto& place) { return is_at_or_below(place, idle.key); });
    const Tree* group = recipe.find(idle.key);
    if (!is_used_in_part || group == nullptr || !group->is_map()) {
      left.push_back(std::move(idle));
      continue;
    }
    for (const Tree::Entry& entry : group->map())
      if (const std::string key = join_path(idle.key, entry.key); !is_covered(key, used)) left.push_back({key, idle.reason});
  }
  return left;
}

}  // namespace trireme

// Keys of a recipe that have no effect here, and their report: how many there are, or all of them by reason.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/tree.h"

namespace trireme {

struct IdleKey {
  std::string key;
  std::string reason;

  bool operator==(const IdleKey&) const = default;
};

std::vector<std::string> names_of(const std::vector<IdleKey>& keys);

enum class Detail : uint8_t { count, list };

// "without effect here: 12 keys (--verbose lists them)", or that and a line per reason; empty without such keys.
std::string idle_text(const std::vector<IdleKey>& keys, Detail detail);

// Pairs of places: the value that refers, and the value it refers to.
using References = std::vector<std::pair<std::string, std::string>>;

// Removes the keys that a value with effect refers to, directly or indirectly. A group with some used keys is replaced by its
// other keys.
std::vector<IdleKey> without_used(std::vector<IdleKey> keys, const Tree& recipe, const References& references);

}  // namespace trireme

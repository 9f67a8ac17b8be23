// The defaults list of Hydra: which files a recipe is put together from.
//   defaults:
//     - _self_                          the file's own keys, here in the order; at the end if left out
//     - name                            another file of the same folder
//     - group: name                     group/name.yaml, under the key `group`; null for none, [a, b] for several
//     - group@a.b: name                 the same under the key a.b
//     - optional group: name            nothing if the file is not there
//     - override group: name            changes the choice that another file of the recipe makes
#pragma once

#include <string>
#include <vector>

#include "config/tree.h"

namespace trireme {

struct DefaultsItem {
  enum class Kind : uint8_t { self, file, group, override_group };
  Kind kind = Kind::self;
  bool optional = false;
  std::string group;               // empty for a file
  std::string package;             // after @; empty if not given
  std::vector<std::string> names;  // the chosen names; empty for null
  Origin origin;

  // What a user types to choose another name: group, or group@package.
  std::string choice_key() const { return package.empty() ? group : group + "@" + package; }
};

// The items of the recipe's `defaults`, including exactly one _self_. Without the key, only _self_.
std::vector<DefaultsItem> read_defaults_list(const Tree& recipe);

}  // namespace trireme

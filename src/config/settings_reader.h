// From the tree of a recipe to typed settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/idle_keys.h"
#include "config/settings.h"
#include "config/tree.h"

namespace trireme {

struct ReadSettings {
  Settings settings;
  std::vector<IdleKey> ignored_keys;  // known, and without effect here
};

// The recipe's references must be resolved. Keys that nobody knows, values that no setting accepts, values that still have to be
// given
// (???) and requests for what is not supported are UserErrors.
ReadSettings read_settings(const Tree& recipe);

// A UserError for a value that its setting does not accept, where the recipe gives it itself. Called before references are
// resolved, so that the key with the wrong value is named and not one that refers to it.
void check_given_values(const Tree& recipe);

// Whether a recipe may have this key at all, and the complaint if not.
bool is_known_key(std::string_view key);
[[noreturn]] void throw_unknown_key(std::string_view key, const std::string& where_suffix);

}  // namespace trireme

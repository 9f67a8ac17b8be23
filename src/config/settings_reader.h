// Reads the tree of a recipe into typed settings.
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
  std::vector<IdleKey> ignored_keys;  // known keys without effect here
};

// The recipe's references must be resolved. Unknown keys, values that a setting does not accept, required values that are not
// given (???) and requests for unsupported features are UserErrors.
ReadSettings read_settings(const Tree& recipe);

// Throws a UserError for a value in the recipe that its setting does not accept. Called before references are resolved, so that
// the message names the key with the wrong value and not one that refers to it.
void check_given_values(const Tree& recipe);

// Whether a recipe may have this key at all, and the error if not.
bool is_known_key(std::string_view key);
[[noreturn]] void throw_unknown_key(std::string_view key, const std::string& where_suffix);

}  // namespace trireme

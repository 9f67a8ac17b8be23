// What a user adds to a recipe on the command line, in the notation of Hydra:
//   a.b=c    sets a key          +a.b=c   adds a key that is not there
//   ++a.b=c  sets or adds        ~a.b     removes a key
// A value is null, true, 3, 1e-4, a word, 'quoted text', [a, b] or {key: value}.
#pragma once

#include <string>
#include <string_view>

#include "config/tree.h"

namespace trireme {

struct Override {
  enum class Action : uint8_t { set, add, set_or_add, remove };
  Action action = Action::set;
  std::string key;
  Tree value;
  std::string text;  // as typed, for messages
};

Override parse_override(std::string_view text);

// A value in this notation: null, true, 3, 1e-4, a word, 'quoted text', [a, b] or {key: value}.
Tree parse_value(std::string_view text);

// Applies one override. The caller must have checked that the key of an Action::set is known, because that depends on the
// settings.
void apply_override(Tree& recipe, const Override& change);

}  // namespace trireme

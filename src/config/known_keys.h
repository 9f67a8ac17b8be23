// The keys of NeMo recipes that are not settings here. Some have no effect and are reported. Some request what this program does
// not do; they are accepted only with a value that means "off".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/idle_keys.h"
#include "config/tree.h"

namespace trireme {

// A key covers itself and everything below it; a key that ends with * covers every key with that prefix.
struct KeysWithoutEffect {
  std::string reason;  // in a few words; empty: not reported
  std::vector<std::string> keys;
};
const std::vector<KeysWithoutEffect>& keys_without_effect();

enum class OtherValue : uint8_t { is_refused, is_said };
struct RestrictedKey {
  std::string key;
  std::vector<std::string> accepted;  // values that mean "off", besides null
  std::string reason;                 // the message for any other value
  OtherValue other = OtherValue::is_refused;
};
const std::vector<RestrictedKey>& restricted_keys();

// The key under which a key without effect is reported, and why it has none; nullopt for any other key.
std::optional<IdleKey> find_without_effect(std::string_view key);
const RestrictedKey* find_restricted(std::string_view key);

// Returns the present name of a key of an older release, also below other keys; other keys unchanged.
std::string canonical_key(std::string key);
// The same for the keys of a tree. A UserError if both names are given with different values.
void rename_aliases(Tree& recipe);

}  // namespace trireme

// The keys of NeMo recipes that are not settings here. Some have nothing to act on and are reported; some ask for what this
// program does not do, and are accepted only while they say "off".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/idle_keys.h"
#include "config/tree.h"

namespace trireme {

// A key stands for itself and everything below it; one that ends with * stands for every key that starts so.
struct KeysWithoutEffect {
  std::string reason;  // in a few words; empty: nothing is said about them
  std::vector<std::string> keys;
};
const std::vector<KeysWithoutEffect>& keys_without_effect();

enum class OtherValue : uint8_t { is_refused, is_said };
struct RestrictedKey {
  std::string key;
  std::vector<std::string> accepted;  // values without consequence, besides null
  std::string reason;                 // what to tell about any other value
  OtherValue other = OtherValue::is_refused;
};
const std::vector<RestrictedKey>& restricted_keys();

// The key under which a key without effect is reported, and why it has none; nothing if this is no such key.
std::optional<IdleKey> find_without_effect(std::string_view key);
const RestrictedKey* find_restricted(std::string_view key);

// A key of an older release, perhaps below others, by its present name; other keys as they are.
std::string canonical_key(std::string key);
// The same for the keys of a tree. A UserError if both are there and differ.
void rename_aliases(Tree& recipe);

}  // namespace trireme

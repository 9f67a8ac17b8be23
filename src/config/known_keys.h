// The keys of NeMo recipes that are not settings here. Some have nothing to act on and are reported; some ask for what this
// program does not do, and are accepted only while they say "off".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A key stands for itself and everything below it; one that ends with * stands for every key that starts so.
const std::vector<std::string>& keys_without_effect();

struct RestrictedKey {
  std::string key;
  std::vector<std::string> accepted;  // values without consequence, besides null
  std::string reason;                 // what to tell about any other value
};
const std::vector<RestrictedKey>& restricted_keys();

// The name under which a key without effect is reported; empty if this is no such key.
std::string find_without_effect(std::string_view key);
const RestrictedKey* find_restricted(std::string_view key);

}  // namespace trireme

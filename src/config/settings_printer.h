// Typed settings as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/settings.h"
#include "config/tree.h"

namespace trireme {

// Every setting under its key: a complete recipe that reads back as the same settings.
Tree to_tree(const Settings& settings);
std::string to_yaml(const Settings& settings);

// One line per setting: key, default, help, what it accepts.
std::string settings_help();
nlohmann::ordered_json settings_json();

// The documentation page of all keys: settings by group, then those without effect and those that are refused.
std::string settings_page();

}  // namespace trireme

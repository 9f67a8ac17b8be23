// Launch options with the place each was given: the command line, a launch file, a site file, a launcher's settings. What is
// given closer to the command line wins.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "config/tree.h"
#include "launch/launch_options.h"

namespace trireme {

struct GivenOptions {
  LaunchOptions values;
  std::map<std::string_view, std::string> places;  // name of the option in the table -> "site.yaml:4", "command line"

  bool has(std::string_view name) const { return places.contains(name); }
};

// The key of an option in files: map_by for --map-by.
std::string file_key(const LaunchOption& option);
// nullptr if there is none; accepts both spellings.
const LaunchOption* find_launch_option(std::string_view name);

// Sets one option from a value of a file. A UserError names the key, the value and what would be right.
void set_option(GivenOptions& options, const LaunchOption& option, const Tree& value);

// Fills what `options` does not have from `below`. Lists that add up (environment, mounts, commands) have those of `below` first.
void add_below(GivenOptions& options, const GivenOptions& below);

// The options that were given, as a map of a file.
Tree to_tree(const GivenOptions& options);

}  // namespace trireme

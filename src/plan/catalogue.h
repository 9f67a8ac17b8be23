// Small YAML files of numbers, found like recipes: hardware/gpus/NAME.yaml, hardware/NAME.yaml, profiles/NAME.yaml.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "config/tree.h"

namespace trireme {

// A catalogue is a folder beside the shipped recipes: "hardware", "hardware/gpus" or "profiles".
std::vector<std::string> catalogue_names(const std::string& catalogue);

// The file of a shipped name, or the path that the user gave. `option` is what the user typed before the name: "--cluster". A
// UserError lists the shipped names.
std::filesystem::path find_in_catalogue(const std::string& catalogue, const std::string& name_or_path, const std::string& option);

// A key that holds a number, and where it goes.
struct NumberKey {
  std::string_view key;
  double* value = nullptr;
  bool may_be_missing = false;
};

// Reads the numbers of a map; other keys are left to the caller. A UserError names a key that is missing, is not a number or is
// negative.
void read_numbers(const Tree& file, const std::string& path, std::span<const NumberKey> keys);

// Throws a UserError for the first key of the map that is neither in `numbers` nor in `others`.
void require_known_keys(const Tree& file, std::span<const NumberKey> numbers, std::span<const std::string_view> others);

}  // namespace trireme

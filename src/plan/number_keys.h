// YAML files whose keys are mostly numbers: those of hardware/ and profiles/.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/tree.h"

namespace trireme {

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

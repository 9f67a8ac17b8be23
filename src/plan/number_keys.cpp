#include "plan/number_keys.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

double number_of(const Tree& value) {
  return value.kind() == Tree::Kind::integer ? static_cast<double>(value.integer()) : value.real();
}

}  // namespace

void read_numbers(const Tree& file, const std::string& path, std::span<const NumberKey> keys) {
  for (const NumberKey& key : keys) {
    const Tree* value = file.find(key.key);
    if (value == nullptr) {
      if (!key.may_be_missing) throw UserError("{}: {} is missing; give a number", path, key.key);
      continue;
    }
    if (value->kind() != Tree::Kind::integer && value->kind() != Tree::Kind::real)
      throw UserError("{}={}: expected a number{}", key.key, value->brief(), value->where_suffix());
    const double number = number_of(*value);
    if (!(number >= 0) || number > 1e300)
      throw UserError("{}={}: expected a number of at least 0{}", key.key, value->brief(), value->where_suffix());
    *key.value = number;
  }
}

void require_known_keys(const Tree& file, std::span<const NumberKey> numbers, std::span<const std::string_view> others) {
  for (const Tree::Entry& entry : file.map()) {
    const bool is_number = std::ranges::any_of(numbers, [&](const NumberKey& key) { return key.key == entry.key; });
    if (is_number || std::ranges::find(others, entry.key) != others.end()) continue;
    std::vector<std::string> known(others.begin(), others.end());
    for (const NumberKey& key : numbers) known.emplace_back(key.key);
    throw UserError("{} is not a key here{}; use {}", entry.key, entry.value.where_suffix(), fmt::join(known, ", "));
  }
}

}  // namespace trireme

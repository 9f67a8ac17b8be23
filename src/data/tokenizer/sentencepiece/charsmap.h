// The precompiled normalization rules of a model: a double array of texts, and their replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class CharsMap {
 public:
  // Parses the blob of a model; empty: no rules. UserError, with `source`, if the blob is malformed.
  CharsMap(const std::string& source, std::string_view blob);

  bool empty() const { return units_.empty(); }

  struct Rule {
    size_t length = 0;             // of the replaced text; 0: no rule
    std::string_view replacement;  // valid while the map exists
  };
  // Returns the longest rule that matches the start of `text`.
  Rule find(std::string_view text) const;

  // Returns the length in bytes of the longest text with a rule, or nothing if the table is damaged and texts do not end.
  std::optional<size_t> longest() const;

 private:
  std::string_view replacement_at(uint32_t offset) const;

  std::vector<uint32_t> units_;  // the double array
  std::string replacements_;     // each is zero-terminated
};

}  // namespace trireme

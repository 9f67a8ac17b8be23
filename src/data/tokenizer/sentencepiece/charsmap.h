// The precompiled normalization rules of a model: a double array of the texts that are replaced, and what replaces them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class CharsMap {
 public:
  // The blob of a model; empty: no rules. UserError, with `source`, for a blob that is not of the right form.
  CharsMap(const std::string& source, std::string_view blob);

  bool empty() const { return units_.empty(); }

  struct Rule {
    size_t length = 0;             // of the text that is replaced; 0: no rule
    std::string_view replacement;  // valid as long as the map
  };
  // The longest rule for what `text` begins with.
  Rule find(std::string_view text) const;

  // The length of the longest text that is replaced, in bytes; nothing: the table is damaged, and has texts without an end.
  std::optional<size_t> longest() const;

 private:
  std::string_view replacement_at(uint32_t offset) const;

  std::vector<uint32_t> units_;  // the double array
  std::string replacements_;     // each ends with a zero
};

}  // namespace trireme

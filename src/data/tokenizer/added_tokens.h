// Tokens that are matched literally in the text, such as <|endoftext|>, before the text is split into words.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct AddedToken {
  enum class Kind : uint8_t {
    special,  // matched only on request, because untrusted text must not be able to end a document
    text,     // always matched
  };
  std::string text;
  int32_t id = 0;
  Kind kind = Kind::special;
  bool normalized = false;  // matched in the normalized text
};

class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens = {});

  bool empty() const { return tokens_.empty(); }
  size_t longest() const { return longest_; }  // in bytes; 0 without tokens

  // Returns whether an occurrence of some token starts before `at` and ends at or after it.
  bool touches(std::string_view text, size_t at) const;

  struct Found {
    size_t at = std::string_view::npos;  // npos if not found
    size_t length = 0;
    int32_t id = 0;
  };
  // Returns the first match at or after `from`; at the same position, the longest.
  Found find(std::string_view text, size_t from) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  size_t longest_ = 0;
  std::vector<AddedToken> tokens_;           // grouped by first byte, the longest first
  std::array<uint32_t, 257> first_of_byte_;  // [byte] index in tokens_ of the first token that starts with the byte
  std::vector<bool> pairs_;                  // [two bytes] whether some token starts with them, or consists of the first only
};

}  // namespace trireme

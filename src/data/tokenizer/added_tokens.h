// Tokens that stand in the text as they are, such as <|endoftext|>: found before anything is cut into words.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct AddedToken {
  enum class Kind : uint8_t {
    special,  // found only when the user asks for it, since text from outside should not be able to end a document
    text,     // always found
  };
  std::string text;
  int32_t id = 0;
  Kind kind = Kind::special;
  bool normalized = false;  // found in the text as it is after normalization
};

class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens = {});

  bool empty() const { return tokens_.empty(); }
  size_t longest() const { return longest_; }  // in bytes; 0: there are none

  // Whether some token stands in the text that begins before `at` and ends there or later.
  bool touches(std::string_view text, size_t at) const;

  struct Found {
    size_t at = std::string_view::npos;  // npos: none
    size_t length = 0;
    int32_t id = 0;
  };
  // The first at or after `from`; of several at the same place, the longest.
  Found find(std::string_view text, size_t from) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  size_t longest_ = 0;
  std::vector<AddedToken> tokens_;           // those with the same first byte together, the longest first
  std::array<uint32_t, 257> first_of_byte_;  // [byte] where in tokens_ those begin that begin with it
  std::vector<bool> pairs_;                  // [two bytes] some token begins with them, or with the first and nothing else
};

}  // namespace trireme

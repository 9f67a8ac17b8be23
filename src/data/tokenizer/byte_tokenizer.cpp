#include "data/tokenizer/byte_tokenizer.h"

namespace trireme {

std::vector<int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

size_t ByteTokenizer::last_cut(std::string_view text, size_t /*searched*/) const {
  size_t at = text.empty() ? 0 : text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

std::string ByteTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const int32_t token : tokens) {
    if (token == end_of_document()) continue;
    if (0 <= token && token < end_of_document()) {
      text.push_back(static_cast<char>(token));
    } else {
      text += "\xEF\xBF\xBD";
    }
  }
  return text;
}

}  // namespace trireme

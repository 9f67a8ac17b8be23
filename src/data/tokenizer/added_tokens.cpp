#include "data/tokenizer/added_tokens.h"

#include <algorithm>
#include <tuple>

namespace trireme {
namespace {

size_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), first_of_byte_{}, pairs_(1 << 16) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.text.empty(); });
  std::ranges::sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    return std::tuple(byte_at(a.text, 0), b.text.size(), a.text) < std::tuple(byte_at(b.text, 0), a.text.size(), b.text);
  });
  for (const AddedToken& token : tokens_) {
    longest_ = std::max(longest_, token.text.size());
    const size_t first = byte_at(token.text, 0);
    ++first_of_byte_[first + 1];
    for (size_t second = 0; second < 256; ++second)
      if (token.text.size() == 1 || byte_at(token.text, 1) == second) pairs_[first << 8 | second] = true;
  }
  for (size_t byte = 0; byte < 256; ++byte) first_of_byte_[byte + 1] += first_of_byte_[byte];
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text) const {
  const size_t first = byte_at(text, 0);
  for (uint32_t i = first_of_byte_[first]; i < first_of_byte_[first + 1]; ++i)
    if (text.starts_with(tokens_[i].text)) return &tokens_[i];
  return nullptr;
}

bool AddedTokenFinder::touches(std::string_view text, size_t at) const {
  for (size_t begin = at - std::min(at, longest_); begin < at; ++begin)
    if (const AddedToken* token = longest_at(text.substr(begin)); token != nullptr && begin + token->text.size() >= at)
      return true;
  return false;
}

AddedTokenFinder::Found AddedTokenFinder::find(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (at + 1 < text.size() && !pairs_[byte_at(text, at) << 8 | byte_at(text, at + 1)]) continue;
    if (const AddedToken* token = longest_at(text.substr(at))) return {at, token->text.size(), token->id};
  }
  return {};
}

}  // namespace trireme

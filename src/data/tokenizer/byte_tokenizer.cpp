#include "data/tokenizer/byte_tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace trireme {
namespace {

using nlohmann::ordered_json;

constexpr const char* kEndOfText = "<|endoftext|>";

// Byte-level tokenizers write every byte as one printable character: itself if it is printable in Latin-1, otherwise the
// characters from U+0100 in ascending order.
std::string printable(int byte, int& others) {
  const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  const int code = itself ? byte : 256 + others++;
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

}  // namespace

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

std::string byte_tokenizer_json() {
  ordered_json vocabulary;
  int others = 0;
  for (int byte = 0; byte < 256; ++byte) vocabulary[printable(byte, others)] = byte;
  vocabulary[kEndOfText] = 256;
  const auto byte_level =
      ordered_json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const ordered_json tokenizer = {{"version", "1.0"},
                                  {"truncation", nullptr},
                                  {"padding", nullptr},
                                  {"added_tokens",
                                   {{{"id", 256},
                                     {"content", kEndOfText},
                                     {"single_word", false},
                                     {"lstrip", false},
                                     {"rstrip", false},
                                     {"normalized", false},
                                     {"special", true}}}},
                                  {"normalizer", nullptr},
                                  {"pre_tokenizer", byte_level},
                                  {"post_processor", nullptr},
                                  {"decoder", byte_level},
                                  {"model",
                                   {{"type", "BPE"},
                                    {"dropout", nullptr},
                                    {"unk_token", nullptr},
                                    {"vocab", vocabulary},
                                    {"merges", ordered_json::array()}}}};
  return json_text(tokenizer, 1) + "\n";
}

bool is_byte_tokenizer(std::string_view tokenizer_json) { return tokenizer_json == byte_tokenizer_json(); }

}  // namespace trireme

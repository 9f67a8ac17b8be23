// Reads tiktoken's rank files: each line has a token's bytes in base64, a space, and its rank, which is also its id.
#include <fmt/ranges.h>

#include <charconv>
#include <unordered_set>

#include "base/error.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/load_vocabulary.h"

namespace trireme {
namespace {

constexpr size_t kMaxTokenBytes = 1024;  // the longest known token has 128

// The published rank files. A file does not record its pattern or its special tokens, but its number of ranks is unique.
struct Published {
  size_t ranks;
  WordPattern pattern;
  std::vector<AddedToken> added;
};

const std::vector<Published>& published_rank_files() {
  static const std::vector<Published> files = {
      {50256, WordPattern::gpt2, {{"<|endoftext|>", 50256}}},  // r50k_base
      {50280, WordPattern::gpt2, {{"<|endoftext|>", 50256}}},  // p50k_base
      {100256,
       WordPattern::cl100k,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}}},
      {199998, WordPattern::o200k, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
      {128000, WordPattern::llama3, {{"<|begin_of_text|>", 128000}, {"<|end_of_text|>", 128001}}},
      {151643, WordPattern::qwen2, {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}},
  };
  return files;
}

int base64_value(char character) {
  if ('A' <= character && character <= 'Z') return character - 'A';
  if ('a' <= character && character <= 'z') return character - 'a' + 26;
  if ('0' <= character && character <= '9') return character - '0' + 52;
  return character == '+' ? 62 : character == '/' ? 63 : -1;
}

std::optional<std::string> decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char character : text) {
    const int value = base64_value(character);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count));
  }
  return bytes;
}

}  // namespace

BpeDefinition read_rank_file(const std::string& source, std::string_view text, std::optional<WordPattern> pattern,
                             std::optional<WordPattern> if_unknown) {
  std::vector<std::string> tokens;
  std::unordered_set<std::string> seen;
  size_t ranks = 0;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    const auto token = decode_base64(line.substr(0, space));
    uint32_t rank = 0;
    const std::string_view digits = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (!token || token->empty() || digits.empty() || error != std::errc() || stop != digits.data() + digits.size())
      throw UserError("{}:{}: not a line of a rank file, which is a token in base64, a space, and its rank", source, number);
    if (rank >= PairTable::kMaxTokens)
      throw UserError("{}:{}: rank {} is larger than {}", source, number, rank, PairTable::kMaxTokens - 1);
    if (token->size() > kMaxTokenBytes)
      throw UserError("{}:{}: a token of {} bytes; at most {} can be read", source, number, token->size(), kMaxTokenBytes);
    if (tokens.size() <= rank) tokens.resize(rank + 1);
    if (!tokens[rank].empty() || !seen.insert(*token).second)
      throw UserError("{}:{}: this rank or this token is there twice", source, number);
    tokens[rank] = *token;
    ++ranks;
  }
  std::vector<AddedToken> added;
  for (const Published& known : published_rank_files()) {
    if (known.ranks != ranks || (pattern && *pattern != known.pattern)) continue;
    pattern = known.pattern;
    added = known.added;
  }
  if (!pattern) pattern = if_unknown;
  if (!pattern)
    throw UserError(
        "{}: a rank file of {} tokens is none that is known, and such files do not say their pattern; use a tokenizer.json, or "
        "give --pattern: {}",
        source, ranks, fmt::join(pattern_names(), ", "));
  const int32_t end_of_document = choose_end_of_document(added);
  return {.model = BpeModel::from_ranks(source, std::move(tokens)),
          .pattern = *pattern,
          .says_pattern = true,
          .added = std::move(added),
          .end_of_document = end_of_document};
}

}  // namespace trireme

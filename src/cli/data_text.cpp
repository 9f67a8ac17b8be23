#include "cli/data_text.h"

#include <fmt/format.h>

#include "data/tokenizer/load_tokenizer.h"

namespace trireme {

// The tokenizer only decodes here, so the word pattern does not matter.
std::unique_ptr<Tokenizer> tokenizer_named(const std::string& name) {
  return name.empty() ? nullptr : load_tokenizer(name, {.if_unknown = WordPattern::gpt2});
}

std::string one_line(const Tokenizer& tokenizer, std::span<const int32_t> tokens, size_t limit) {
  std::string line;
  for (const char character : tokenizer.decode(tokens)) {
    if (line.size() >= limit) {
      // Never cuts inside a multi-byte character.
      while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xc0) == 0x80) line.pop_back();
      if (!line.empty() && (static_cast<unsigned char>(line.back()) & 0x80) != 0) line.pop_back();
      return line + "...";
    }
    if (character == '\n')
      line += "\\n";
    else if (character == '\t')
      line += "\\t";
    else if (static_cast<unsigned char>(character) < 0x20 || character == 0x7f)
      line += fmt::format("\\x{:02x}", character);
    else
      line += character;
  }
  return line;
}

}  // namespace trireme

// Reads GPT-2's own files: vocab.json (encoder.json) and merges.txt (vocab.bpe).
#include "base/error.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/load_vocabulary.h"

namespace trireme {
namespace {

// Parses the pattern that `trireme data train-tokenizer` writes after the version: "#version: 0.2 pattern: o200k".
std::optional<WordPattern> pattern_in_header(const std::string& source, std::string_view line) {
  constexpr std::string_view kPattern = " pattern: ";
  const size_t at = line.find(kPattern);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view name = line.substr(at + kPattern.size());
  const auto pattern = pattern_named(name);
  if (!pattern) throw UserError("{}: its merges name the pattern {}, which is not known", source, name);
  return pattern;
}

}  // namespace

BpeDefinition read_vocab_and_merges(const std::string& source, std::string_view vocab_json, std::string_view merges_txt) {
  WrittenVocabulary vocabulary(source, parse_json(source, vocab_json));
  int64_t number = 0;
  std::optional<WordPattern> pattern;
  for (size_t at = 0; at < merges_txt.size();) {
    const size_t end = std::min(merges_txt.find('\n', at), merges_txt.size());
    std::string_view line = merges_txt.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1 && line.starts_with("#version")) {
      pattern = pattern_in_header(source, line);
      continue;
    }
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    const std::string where = fmt::format("merge line {}", number);
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      throw UserError("{}: {} is not two tokens with a space between them", source, where);
    vocabulary.add_merge(line.substr(0, space), line.substr(space + 1), where);
  }
  std::vector<AddedToken> added = vocabulary.find_special_tokens();
  const int32_t end_of_document = choose_end_of_document(added);
  BpeModel model = vocabulary.take_model(added, WholeWords::merged);
  return {.model = std::move(model),
          .pattern = pattern.value_or(WordPattern::gpt2),
          .says_pattern = pattern.has_value(),
          .added = std::move(added),
          .end_of_document = end_of_document};
}

}  // namespace trireme

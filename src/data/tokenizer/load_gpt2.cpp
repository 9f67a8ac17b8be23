// GPT-2's own files: vocab.json (encoder.json) and merges.txt (vocab.bpe).
#include "base/error.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/load_vocabulary.h"

namespace trireme {

BpeDefinition read_vocab_and_merges(const std::string& source, std::string_view vocab_json, std::string_view merges_txt) {
  WrittenVocabulary vocabulary(source, parse_json(source, vocab_json));
  int64_t number = 0;
  for (size_t at = 0; at < merges_txt.size();) {
    const size_t end = std::min(merges_txt.find('\n', at), merges_txt.size());
    std::string_view line = merges_txt.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1 && line.starts_with("#version")) continue;
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
  return {.model = std::move(model), .added = std::move(added), .end_of_document = end_of_document};
}

}  // namespace trireme

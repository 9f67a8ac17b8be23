// Loads tokenizer files of other programs: GPT-2's vocab.json and merges.txt, tiktoken's rank files, Hugging Face's
// tokenizer.json (the byte-level BPE kind), and sentencepiece models.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/tokenizer/bpe_tokenizer.h"

namespace trireme {

struct TokenizerOptions {
  SpecialTokens specials = SpecialTokens::ordinary;
  std::optional<WordPattern> pattern;          // for files that do not name theirs; no value: rank files by size, others GPT-2's
  std::optional<WordPattern> if_unknown;       // for rank files of unknown size; no value: an error
  std::optional<std::string> end_of_document;  // text of the special token that ends documents; no value: one of the usual names
  std::filesystem::path merges;                // for a vocab.json; empty: merges.txt beside it
  std::string named_by = "--tokenizer ";       // precedes the name in errors
};

// `name` is "bytes", a file (tokenizer.json, *.tiktoken, vocab.json beside its merges.txt, a sentencepiece model of any name), or
// a folder with one of them. UserError in one line if it cannot be read.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name, const TokenizerOptions& options = {});

// Readers of the single formats; `source` names the text in errors.
BpeDefinition read_vocab_and_merges(const std::string& source, std::string_view vocab_json, std::string_view merges_txt);
BpeDefinition read_rank_file(const std::string& source, std::string_view text, std::optional<WordPattern> pattern,
                             std::optional<WordPattern> if_unknown = std::nullopt);
BpeDefinition read_tokenizer_json(const std::string& source, std::string_view text);

}  // namespace trireme

// Tokenizers from the files that others have: GPT-2's vocab.json and merges.txt, tiktoken's rank files, tokenizer.json of Hugging
// Face (the byte-level BPE kind), sentencepiece models.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/tokenizer/bpe_tokenizer.h"

namespace trireme {

struct TokenizerOptions {
  SpecialTokens specials = SpecialTokens::ordinary;
  std::optional<WordPattern> pattern;          // for files that do not say theirs; none: rank files by their size, others GPT-2's
  std::optional<WordPattern> if_unknown;       // for rank files that are none of those known; none: they are refused
  std::optional<std::string> end_of_document;  // the text of the special token that ends documents; none: one of the usual
  std::filesystem::path merges;                // of a vocab.json; empty: merges.txt beside it
  std::string named_by = "--tokenizer ";       // in errors, before the name
};

// "bytes", or a file: tokenizer.json, *.tiktoken, vocab.json beside its merges.txt, a sentencepiece model of any name, or a
// folder with one of them. UserError in one line for what cannot be read.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name, const TokenizerOptions& options = {});

// The readers of the single formats; `source` names the text in errors.
BpeDefinition read_vocab_and_merges(const std::string& source, std::string_view vocab_json, std::string_view merges_txt);
BpeDefinition read_rank_file(const std::string& source, std::string_view text, std::optional<WordPattern> pattern,
                             std::optional<WordPattern> if_unknown = std::nullopt);
BpeDefinition read_tokenizer_json(const std::string& source, std::string_view text);

}  // namespace trireme

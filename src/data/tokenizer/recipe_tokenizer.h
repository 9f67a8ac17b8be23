// The tokenizer that a recipe names in model.tokenizer.
#pragma once

#include <memory>
#include <string>

#include "config/settings.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

struct RecipeTokenizer {
  enum class Kind : uint8_t {
    bytes,    // no tokenizer is named: one token per byte
    files,    // `path`, and `merges` if named too
    foreign,  // not available here: a sentencepiece model of another machine, a name on the Hugging Face hub
  };

  Kind kind = Kind::bytes;
  std::string key;           // the setting that names it
  std::string path, merges;  // for files
  std::string remedy;        // for foreign: what to do

  // Returns "model.tokenizer.vocab_file=gpt2/vocab.json", or "text read as bytes".
  std::string description() const;

  // UserError if it cannot be read.
  std::unique_ptr<Tokenizer> open() const;
};

// Opens no file. UserError for merges without a vocabulary.
RecipeTokenizer named_tokenizer(const TokenizerSettings& settings);

// UserError unless all tokens of the tokenizer are below `vocab_size`. A padded vocabulary is fine.
void require_vocabulary(int64_t vocab_size, const Tokenizer& tokenizer, const RecipeTokenizer& named);

}  // namespace trireme

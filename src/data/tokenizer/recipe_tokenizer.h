// The tokenizer that a recipe names in model.tokenizer.
#pragma once

#include <memory>
#include <string>

#include "config/settings.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

struct RecipeTokenizer {
  enum class Kind : uint8_t {
    bytes,    // none is named: a token a byte
    files,    // `path`, and `merges` where they are named too
    foreign,  // something that is not here: a sentencepiece model of another machine, a name on the Hugging Face hub
  };

  Kind kind = Kind::bytes;
  std::string key;           // the setting that names it
  std::string path, merges;  // files
  std::string remedy;        // foreign: what would be right

  // "model.tokenizer.vocab_file=gpt2/vocab.json", or "text read as bytes".
  std::string description() const;

  // UserError for what cannot be read.
  std::unique_ptr<Tokenizer> open() const;
};

// Opens no file. UserError for merges without a vocabulary.
RecipeTokenizer named_tokenizer(const TokenizerSettings& settings);

// UserError unless a model of `vocab_size` tokens knows all of the tokenizer's. A vocabulary that is rounded up is fine.
void require_vocabulary(int64_t vocab_size, const Tokenizer& tokenizer, const RecipeTokenizer& named);

}  // namespace trireme

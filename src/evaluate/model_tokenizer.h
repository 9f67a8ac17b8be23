// The tokenizer of a model that is evaluated.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer/tokenizer.h"
#include "evaluate/begin_token.h"
#include "train/model_source.h"

namespace trireme {

struct ModelTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  BeginToken begin;

  // The token that comes before a text without a context: the one that begins texts, or else the one that ends documents. -1:
  // there is neither.
  int32_t prefix() const { return begin.id ? *begin.id : tokenizer->end_of_document(); }
};

// The model's own, or the one that the user gave with --tokenizer. UserError if there is none that can be read.
ModelTokenizer open_model_tokenizer(const ModelSource& source, const std::string& given);
// The one that a recipe names; `named` is how the user knows the model.
ModelTokenizer open_recipe_tokenizer(const ModelSettings& model, const std::string& named);

}  // namespace trireme

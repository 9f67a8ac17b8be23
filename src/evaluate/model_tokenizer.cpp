#include "evaluate/model_tokenizer.h"

#include "base/error.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/recipe_tokenizer.h"

namespace trireme {

std::unique_ptr<Tokenizer> open_model_tokenizer(const ModelSource& source, const std::string& given) {
  if (!given.empty()) return load_tokenizer(given);
  if (is_transformers_model(source.named)) {
    const std::filesystem::path named(source.named);
    return load_tokenizer((std::filesystem::is_directory(named) ? named : named.parent_path()).string());
  }
  const ModelSettings& model = source.settings.model;
  const RecipeTokenizer tokenizer = named_tokenizer(model.tokenizer);
  if (tokenizer.kind == RecipeTokenizer::Kind::bytes && !model.data.is_text())
    throw UserError("{} was trained on model.data.data_impl={} and names no tokenizer; give one with --tokenizer", source.named,
                    name_of(model.data.data_impl));
  return tokenizer.open();
}

}  // namespace trireme

#include "evaluate/model_tokenizer.h"

#include "base/error.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/recipe_tokenizer.h"

namespace trireme {

ModelTokenizer open_model_tokenizer(const ModelSource& source, const std::string& given) {
  if (!given.empty()) return {load_tokenizer(given), begin_token_of(given)};
  if (is_transformers_model(source.named)) {
    const std::filesystem::path named(source.named);
    const std::filesystem::path folder = std::filesystem::is_directory(named) ? named : named.parent_path();
    return {load_tokenizer(folder.string()), begin_token_of(folder)};
  }
  return open_recipe_tokenizer(source.settings.model, source.named);
}

ModelTokenizer open_recipe_tokenizer(const ModelSettings& model, const std::string& named) {
  const RecipeTokenizer tokenizer = named_tokenizer(model.tokenizer);
  if (tokenizer.kind != RecipeTokenizer::Kind::bytes) return {tokenizer.open(), begin_token_of(tokenizer.path)};
  if (!model.data.is_text())
    throw UserError("{} was trained on model.data.data_impl={} and names no tokenizer; give one with --tokenizer", named,
                    name_of(model.data.data_impl));
  return {tokenizer.open(), {}};
}

}  // namespace trireme

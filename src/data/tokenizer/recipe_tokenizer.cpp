#include "data/tokenizer/recipe_tokenizer.h"

#include <filesystem>

#include "base/error.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "data/tokenizer/load_tokenizer.h"

namespace trireme {
namespace {

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

RecipeTokenizer named_tokenizer(const TokenizerSettings& settings) {
  using Kind = RecipeTokenizer::Kind;
  constexpr const char *kType = "model.tokenizer.type", *kModel = "model.tokenizer.model";
  if (!settings.vocab_file.empty())
    return {.kind = Kind::files,
            .key = "model.tokenizer.vocab_file",
            .path = settings.vocab_file,
            .merges = settings.merge_file,
            .remedy = {}};
  if (!settings.merge_file.empty())
    throw UserError("model.tokenizer.merge_file={}: model.tokenizer.vocab_file is missing, the vocab.json that belongs to it",
                    settings.merge_file);
  if (settings.library == TokenizerLibrary::sentencepiece && !settings.model.empty())
    return {.kind = is_there(settings.model) ? Kind::files : Kind::foreign,
            .key = kModel,
            .path = settings.model,
            .merges = {},
            .remedy = "no such file; give the tokenizer.model that belongs to the data"};
  if (settings.library == TokenizerLibrary::huggingface && !settings.type.empty()) {
    return {.kind = is_there(settings.type) ? Kind::files : Kind::foreign,
            .key = kType,
            .path = settings.type,
            .merges = {},
            .remedy = "no such file or folder; download its tokenizer.json and give the folder"};
  }
  if (!settings.model.empty()) return {.kind = Kind::files, .key = kModel, .path = settings.model, .merges = {}, .remedy = {}};
  return {};
}

std::string RecipeTokenizer::description() const {
  return kind == Kind::bytes ? "text read as bytes" : fmt::format("{}={}", key, path);
}

std::unique_ptr<Tokenizer> RecipeTokenizer::open() const {
  if (kind == Kind::foreign) throw UserError("{}: {}", description(), remedy);
  if (kind == Kind::bytes) return std::make_unique<ByteTokenizer>();
  return load_tokenizer(path, {.merges = merges, .named_by = key + "="});
}

void require_vocabulary(int64_t vocab_size, const Tokenizer& tokenizer, const RecipeTokenizer& named) {
  if (vocab_size < tokenizer.vocabulary())
    throw UserError("model.vocab_size={} is too small for {}; use null or at least {}", vocab_size, named.description(),
                    tokenizer.vocabulary());
}

}  // namespace trireme

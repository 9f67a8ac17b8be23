#include "data/tokenizer/load_tokenizer.h"

#include <array>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "data/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxFileBytes = int64_t{1} << 28;

std::string read_named_file(const fs::path& path) {
  try {
    return read_file(path, kMaxFileBytes);
  } catch (const Failure& failure) {
    throw UserError("{}", failure.what());
  }
}

// Llama 3 uses this name for a rank file, so the first bytes decide.
bool is_sentencepiece(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 16> first{};
  file.read(first.data(), first.size());
  return looks_like_sentencepiece({first.data(), static_cast<size_t>(file.gcount())});
}

// Returns the most complete file of a folder. The tokenizer.json of a sentencepiece model is another form of it.
fs::path file_in_folder(const fs::path& folder, const TokenizerOptions& options) {
  fs::path model = folder / "tokenizer.model";
  if (fs::exists(model) && (is_sentencepiece(model) || !fs::exists(folder / "tokenizer.json"))) return model;
  for (const char* name : {"tokenizer.json", "vocab.json", "encoder.json", "gpt2-vocab.json"})
    if (fs::exists(folder / name)) return folder / name;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".tiktoken") return entry.path();
  throw UserError("{}{}: the folder has no tokenizer.json, tokenizer.model, vocab.json or *.tiktoken", options.named_by,
                  folder.string());
}

fs::path merges_of(const fs::path& vocab, const TokenizerOptions& options) {
  if (!options.merges.empty()) return options.merges;
  for (const char* name : {"merges.txt", "vocab.bpe", "gpt2-merges.txt"})
    if (fs::exists(vocab.parent_path() / name)) return vocab.parent_path() / name;
  throw UserError("{}{}: its merges are missing; merges.txt must be beside it", options.named_by, vocab.string());
}

// In a vocabulary all values are numbers; a tokenizer.json has an object under "model".
bool has_model(std::string_view json) {
  constexpr std::string_view kModel = "\"model\"";
  for (size_t at = json.find(kModel); at != std::string_view::npos; at = json.find(kModel, at + 1)) {
    const size_t colon = json.find_first_not_of(" \t\r\n", at + kModel.size());
    if (colon == std::string_view::npos || json[colon] != ':') continue;
    const size_t value = json.find_first_not_of(" \t\r\n", colon + 1);
    if (value != std::string_view::npos && json[value] == '{') return true;
  }
  return false;
}

BpeDefinition read_definition(const fs::path& path, const TokenizerOptions& options) {
  const std::string text = read_named_file(path);
  if (path.extension() == ".tiktoken" || path.extension() == ".model")
    return read_rank_file(path.string(), text, options.pattern, options.if_unknown);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{')
    throw UserError("{}{}: not a tokenizer.json, a vocab.json, a sentencepiece model or a file named *.tiktoken",
                    options.named_by, path.string());
  if (has_model(text)) return read_tokenizer_json(path.string(), text);
  return read_vocab_and_merges(path.string(), text, read_named_file(merges_of(path, options)));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name, const TokenizerOptions& options) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  fs::path path(name);
  if (!fs::exists(path))
    throw UserError("{}{}: no such file; give tokenizer.json, tokenizer.model, vocab.json, a .tiktoken file, a folder, or bytes",
                    options.named_by, name);
  if (fs::is_directory(path)) path = file_in_folder(path, options);
  if (is_sentencepiece(path))
    return std::make_unique<SentencePieceTokenizer>(read_sentencepiece_model(path.string(), read_named_file(path)),
                                                    options.specials, options.end_of_document);
  if (path.extension() == ".json" && is_byte_tokenizer(read_named_file(path))) return std::make_unique<ByteTokenizer>();
  BpeDefinition definition = read_definition(path, options);
  if (options.pattern && *options.pattern != definition.pattern) {
    if (definition.says_pattern)
      throw UserError("--pattern {}: {} says that its pattern is {}; leave --pattern out", name_of(*options.pattern),
                      path.string(), name_of(definition.pattern));
    definition.pattern = *options.pattern;
  }
  if (options.end_of_document) {
    definition.end_of_document = -1;
    for (const AddedToken& token : definition.added)
      if (token.text == *options.end_of_document) definition.end_of_document = token.id;
    if (definition.end_of_document < 0) throw UserError("{}: no special token {}", path.string(), *options.end_of_document);
  }
  return std::make_unique<BpeTokenizer>(std::move(definition), options.specials);
}

}  // namespace trireme

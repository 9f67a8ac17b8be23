#include "data/tokenizer/load_tokenizer.h"

#include "base/error.h"
#include "base/file.h"
#include "data/byte_tokenizer.h"

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

// The file of a folder that says the most.
fs::path file_in_folder(const fs::path& folder, const TokenizerOptions& options) {
  for (const char* name : {"tokenizer.json", "vocab.json", "encoder.json", "gpt2-vocab.json"})
    if (fs::exists(folder / name)) return folder / name;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".tiktoken") return entry.path();
  throw UserError("{}{}: the folder has no tokenizer.json, vocab.json or *.tiktoken", options.named_by, folder.string());
}

fs::path merges_of(const fs::path& vocab, const TokenizerOptions& options) {
  if (!options.merges.empty()) return options.merges;
  for (const char* name : {"merges.txt", "vocab.bpe", "gpt2-merges.txt"})
    if (fs::exists(vocab.parent_path() / name)) return vocab.parent_path() / name;
  throw UserError("{}{}: its merges are missing; merges.txt must stand beside it", options.named_by, vocab.string());
}

BpeDefinition read_definition(const fs::path& path, const TokenizerOptions& options) {
  const std::string text = read_named_file(path);
  if (path.extension() == ".tiktoken") return read_rank_file(path.string(), text, options.pattern);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{')
    throw UserError("{}{}: neither a tokenizer.json, nor a vocab.json, nor a file named *.tiktoken", options.named_by,
                    path.string());
  // Of a vocabulary the values are numbers; a tokenizer.json has its vocabulary under "model".
  if (text.find("\"model\"") != std::string::npos && text.find("\"merges\"") != std::string::npos)
    return read_tokenizer_json(path.string(), text);
  return read_vocab_and_merges(path.string(), text, read_named_file(merges_of(path, options)));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name, const TokenizerOptions& options) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  fs::path path(name);
  if (!fs::exists(path))
    throw UserError("{}{}: no such file; give tokenizer.json, vocab.json, a .tiktoken file, a folder, or bytes", options.named_by,
                    name);
  if (fs::is_directory(path)) path = file_in_folder(path, options);
  BpeDefinition definition = read_definition(path, options);
  if (options.end_of_document) {
    definition.end_of_document = -1;
    for (const AddedToken& token : definition.added)
      if (token.text == *options.end_of_document) definition.end_of_document = token.id;
    if (definition.end_of_document < 0) throw UserError("{}: no special token {}", path.string(), *options.end_of_document);
  }
  return std::make_unique<BpeTokenizer>(std::move(definition), options.specials);
}

}  // namespace trireme

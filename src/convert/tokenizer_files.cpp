#include "convert/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kEndOfText = "<|endoftext|>";
constexpr int64_t kMaxTokenizerBytes = int64_t{1} << 28;
constexpr std::array kFileNames = {"tokenizer.json",  "tokenizer_config.json",   "vocab.json",        "merges.txt",
                                   "tokenizer.model", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"};

std::string config_json(const char* tokenizer_class) {
  const ordered_json config = {{"tokenizer_class", tokenizer_class},
                               {"bos_token", kEndOfText},
                               {"eos_token", kEndOfText},
                               {"unk_token", kEndOfText},
                               {"add_prefix_space", false},
                               {"clean_up_tokenization_spaces", false}};
  return json_text(config) + "\n";
}

std::string named(const Tree& recipe, const char* key) {
  const Tree* value = recipe.find(std::string("model.tokenizer.") + key);
  return value == nullptr || value->is_null() ? "" : value->text();
}

std::string require_file(const std::string& file, const char* key) {
  if (!fs::is_regular_file(file)) throw UserError("model.tokenizer.{}={} is not there", key, file);
  return file;
}

std::optional<int64_t> end_token_of(const fs::path& vocabulary) {
  const auto parsed = parse_strict_json(read_file(vocabulary, kMaxTokenizerBytes), vocabulary.string());
  const auto found = parsed.is_object() ? parsed.find(kEndOfText) : parsed.end();
  return found != parsed.end() && found->is_number_integer() ? std::optional(found->get<int64_t>()) : std::nullopt;
}

}  // namespace

TokenizerFiles tokenizer_of(const Tree& recipe) {
  TokenizerFiles files;
  const std::string vocabulary = named(recipe, "vocab_file"), merges = named(recipe, "merge_file"),
                    model = named(recipe, "model");
  const Tree* data = recipe.find("model.data.data_impl");
  if (!vocabulary.empty() && !merges.empty()) {
    files.copies = {{require_file(vocabulary, "vocab_file"), "vocab.json"}, {require_file(merges, "merge_file"), "merges.txt"}};
    files.texts = {{"tokenizer_config.json", config_json("GPT2Tokenizer")}};
    files.end_token = end_token_of(vocabulary);
    files.description = "GPT-2 byte pair encoding";
  } else if (named(recipe, "library") == "huggingface" && fs::is_directory(named(recipe, "type"))) {
    for (const char* name : kFileNames)
      if (const fs::path file = fs::path(named(recipe, "type")) / name; fs::is_regular_file(file))
        files.copies.emplace_back(file, name);
    if (const fs::path list = fs::path(named(recipe, "type")) / "vocab.json"; fs::is_regular_file(list))
      files.end_token = end_token_of(list);
    files.description = "that of " + named(recipe, "type");
  } else if (!model.empty()) {
    files.copies = {{require_file(model, "model"), "tokenizer.model"}};
    files.description = "sentencepiece";
  } else if (data != nullptr && (data->text() == "text" || data->text() == "sft")) {
    files.texts = {{"tokenizer.json", byte_tokenizer_json()}, {"tokenizer_config.json", config_json("PreTrainedTokenizerFast")}};
    files.end_token = 256;
    files.description = "bytes";
  }
  return files;
}

// Whether the folder has the tokenizer that export writes for models of bytes.
static bool has_byte_tokenizer(const fs::path& folder) {
  const fs::path file = folder / "tokenizer.json";
  return fs::is_regular_file(file) && is_byte_tokenizer(read_file(file, kMaxTokenizerBytes));
}

std::string name_tokenizer(const fs::path& folder, const fs::path& place, Tree& recipe) {
  if (has_byte_tokenizer(folder)) {
    recipe.set("model.data.data_impl", Tree(std::string("text")));
    return "bytes";
  }
  const auto has = [&](const char* name) { return fs::is_regular_file(folder / name); };
  const int64_t found = std::ranges::count_if(kFileNames, has);
  if (found == 0) return "none found";
  const auto set = [&](const char* key, const std::string& value) {
    recipe.set(std::string("model.tokenizer.") + key, Tree(value));
  };
  // A tokenizer.json also records the word pattern; the other two files do not.
  if (!has("tokenizer.json") && has("vocab.json") && has("merges.txt")) {
    set("library", "megatron");
    set("type", "GPT2BPETokenizer");
    set("vocab_file", (place / "vocab.json").string());
    set("merge_file", (place / "merges.txt").string());
    return "byte pair encoding, vocab.json and merges.txt";
  }
  set("library", "huggingface");
  set("type", place.string());
  return plural(found, "file");
}

std::string import_tokenizer(const fs::path& from, const fs::path& to, const fs::path& final_place, Tree& recipe) {
  std::string description = name_tokenizer(from, final_place, recipe);
  if (description == "bytes") return description;  // needs no files
  for (const char* name : kFileNames) {
    if (!fs::is_regular_file(from / name)) continue;
    create_folders(to);
    atomic_write(to / name, bytes_of(read_file(from / name, kMaxTokenizerBytes)));
  }
  return description;
}

}  // namespace trireme

#include "evaluate/begin_token.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "data/tokenizer/sentencepiece/model_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestTokenizer = int64_t{1} << 28;

// Null if it is not there or not JSON: then there is nothing to follow.
nlohmann::json json_in(const fs::path& file) {
  if (!fs::is_regular_file(file)) return nullptr;
  return nlohmann::json::parse(read_file(file, kLargestTokenizer), nullptr, /*allow_exceptions=*/false);
}

nlohmann::json value_of(const nlohmann::json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object[key] : nlohmann::json(nullptr);
}

// A text, or an object with one.
std::string token_text(const nlohmann::json& token) {
  const nlohmann::json& content = token.is_object() ? value_of(token, "content") : token;
  return content.is_string() ? content.get<std::string>() : "";
}

std::optional<int32_t> token_id(const nlohmann::json& value) {
  return value.is_number_integer() ? std::optional(value.get<int32_t>()) : std::nullopt;
}

std::optional<int32_t> id_of(const std::string& token, const nlohmann::json& tokenizer, const fs::path& folder) {
  if (token.empty()) return std::nullopt;
  const nlohmann::json added_tokens = value_of(tokenizer, "added_tokens");
  for (const nlohmann::json& added : added_tokens)
    if (token_text(added) == token) return token_id(value_of(added, "id"));
  if (const auto found = token_id(value_of(value_of(value_of(tokenizer, "model"), "vocab"), token.c_str()))) return found;
  if (const auto found = token_id(value_of(json_in(folder / "vocab.json"), token.c_str()))) return found;
  const fs::path model = folder / "tokenizer.model";
  if (!fs::is_regular_file(model)) return std::nullopt;
  const std::string bytes = read_file(model, kLargestTokenizer);
  if (!looks_like_sentencepiece(bytes)) return std::nullopt;
  const SentencePieceModel pieces = read_sentencepiece_model(model.string(), bytes);
  for (size_t i = 0; i < pieces.pieces.size(); ++i)
    if (pieces.pieces[i].text == token) return static_cast<int32_t>(i);
  return std::nullopt;
}

// The token that a template of tokenizer.json begins with.
std::optional<int32_t> begin_of(const nlohmann::json& processor) {
  if (token_text(value_of(processor, "type")) == "Sequence") {
    const nlohmann::json processors = value_of(processor, "processors");
    for (const nlohmann::json& one : processors)
      if (const auto found = begin_of(one)) return found;
    return std::nullopt;
  }
  const nlohmann::json single = value_of(processor, "single");
  if (!single.is_array() || single.empty()) return std::nullopt;
  const nlohmann::json special = value_of(value_of(single[0], "SpecialToken"), "id");
  if (!special.is_string()) return std::nullopt;
  const nlohmann::json ids = value_of(value_of(value_of(processor, "special_tokens"), special.get<std::string>().c_str()), "ids");
  return ids.is_array() && ids.size() == 1 ? token_id(ids[0]) : std::nullopt;
}

}  // namespace

BeginToken begin_token_of(const fs::path& tokenizer) {
  const fs::path folder = fs::is_directory(tokenizer) ? tokenizer : tokenizer.parent_path();
  const nlohmann::json config = json_in(folder / "tokenizer_config.json"), json = json_in(folder / "tokenizer.json");
  BeginToken begin{.id = id_of(token_text(value_of(config, "bos_token")), json, folder)};
  if (json.is_object()) {
    const std::optional<int32_t> first = begin_of(value_of(json, "post_processor"));
    if (first) begin.id = first;
    begin.is_added = first.has_value();
    return begin;
  }
  const nlohmann::json adds = value_of(config, "add_bos_token");
  begin.is_added = begin.id && (adds.is_boolean() ? adds.get<bool>() : fs::is_regular_file(folder / "tokenizer.model"));
  return begin;
}

}  // namespace trireme

// Reads tokenizer.json of Hugging Face, the byte-level BPE kind: GPT-2, GPT-NeoX, Llama 3, Qwen and similar ones. A setting that
// changes the tokens and is not supported is an error of one line, never ignored.
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/load_vocabulary.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

std::string_view text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? std::string_view(found->get_ref<const std::string&>())
                                                     : std::string_view();
}

bool is_true(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

bool is_given(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null() && *found != Json("") && *found != Json(false);
}

class TokenizerJson {
 public:
  TokenizerJson(const std::string& source, const Json& root) : source_(source), root_(root) {}

  BpeDefinition read() {
    if (!root_.is_object() || !root_.contains("model") || !root_["model"].is_object()) throw refuse("there is no model in it");
    const Json& model = root_["model"];
    if (text_of(model, "type") != "BPE" && !(text_of(model, "type").empty() && model.contains("merges")))
      throw refuse(fmt::format("model type {} is not supported; byte-level BPE is", text_of(model, "type")));
    for (const char* key : {"truncation", "padding"})
      if (is_given(root_, key)) throw refuse(fmt::format("{} is set, which changes the tokens; set it to null in the file", key));
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
      if (is_given(model, key)) throw refuse(fmt::format("model.{} = {} is not supported", key, json_text(model[key], kOneLine)));
    read_normalizer();
    read_pre_tokenizer();
    if (!is_byte_level_) throw refuse("its pre_tokenizer is not byte-level; SentencePiece vocabularies are not supported");
    read_added_tokens();
    WrittenVocabulary vocabulary(source_, model.value("vocab", Json::object()));
    for (const AddedToken& token : added_)
      if (const int32_t id = vocabulary.find(token.text); id >= 0 && id != token.id)
        throw refuse(fmt::format("added token {} has number {}, but {} in the vocabulary", token.text, token.id, id));
    read_merges(model.value("merges", Json::array()), vocabulary);
    const int32_t end_of_document = choose_end_of_document(added_);
    return {.model = vocabulary.take_model(added_, is_true(model, "ignore_merges") ? WholeWords::looked_up : WholeWords::merged),
            .pattern = pattern_,
            .says_pattern = true,
            .text_form = text_form_,
            .adds_prefix_space = adds_prefix_space_,
            .added = std::move(added_),
            .end_of_document = end_of_document};
  }

 private:
  UserError refuse(const std::string& why) const { return UserError("{}: {}", source_, why); }

  void read_normalizer() {
    if (!root_.contains("normalizer") || root_["normalizer"].is_null()) return;
    const Json& normalizer = root_["normalizer"];
    const std::string_view type = normalizer.is_object() ? text_of(normalizer, "type") : "";
    const bool nothing = type == "Sequence" && normalizer.value("normalizers", Json::array()).empty();
    if (nothing) return;
    if (type != "NFC") throw refuse(fmt::format("normalizer {} is not supported; NFC and none are", type));
    text_form_ = TextForm::nfc;
  }

  void read_pre_tokenizer() {
    if (!root_.contains("pre_tokenizer") || !root_["pre_tokenizer"].is_object()) return;
    const Json& pre_tokenizer = root_["pre_tokenizer"];
    if (text_of(pre_tokenizer, "type") != "Sequence") return read_step(pre_tokenizer);
    for (const Json& step : pre_tokenizer.value("pretokenizers", Json::array())) read_step(step);
  }

  void read_step(const Json& step) {
    const std::string_view type = step.is_object() ? text_of(step, "type") : "";
    if (type == "ByteLevel") {
      if (is_byte_level_) throw refuse("two ByteLevel pre_tokenizers one after the other are not supported");
      is_byte_level_ = true;
      adds_prefix_space_ = is_true(step, "add_prefix_space");
      if (adds_prefix_space_ && has_pattern_)
        throw refuse("ByteLevel with add_prefix_space after a Split, which puts a space before every word, is not supported");
      const bool cuts = !step.contains("use_regex") || is_true(step, "use_regex");
      if (cuts && has_pattern_) throw refuse("two patterns one after the other are not supported");
      if (!cuts && !has_pattern_) throw refuse("a ByteLevel pre_tokenizer without a pattern is not supported");
      has_pattern_ = true;
      return;
    }
    if (is_byte_level_) throw refuse(fmt::format("pre_tokenizer {} after ByteLevel is not supported", type));
    if (type != "Split") throw refuse(fmt::format("pre_tokenizer {} is not supported; ByteLevel and Split are", type));
    if (text_of(step, "behavior") != "Isolated" || is_true(step, "invert"))
      throw refuse("of Split pre_tokenizers only behavior Isolated, not inverted, is supported");
    if (has_pattern_) throw refuse("two patterns one after the other are not supported");
    const Json pattern = step.value("pattern", Json::object());
    const std::string_view expression = pattern.is_object() ? text_of(pattern, "Regex") : "";
    const auto known = pattern_of_regex(expression);
    if (!known)
      throw refuse(fmt::format("the pattern {} is none of those supported: {}", expression, fmt::join(pattern_names(), ", ")));
    pattern_ = *known;
    has_pattern_ = true;
  }

  void read_added_tokens() {
    for (const Json& token : root_.value("added_tokens", Json::array())) {
      const bool well_formed = token.is_object() && !text_of(token, "content").empty() && token.contains("id") &&
                               token["id"].is_number_integer() && token["id"] >= 0 && token["id"] < PairTable::kMaxTokens;
      if (!well_formed) throw refuse(fmt::format("added token {} has no content or no number", json_text(token, kOneLine)));
      for (const char* key : {"lstrip", "rstrip", "single_word"})
        if (is_true(token, key))
          throw refuse(fmt::format("added token {} has {}, which is not supported", text_of(token, "content"), key));
      const bool special = is_true(token, "special");
      added_.push_back({.text = std::string(text_of(token, "content")),
                        .id = token["id"].get<int32_t>(),
                        .kind = special ? AddedToken::Kind::special : AddedToken::Kind::text,
                        .normalized = token.contains("normalized") ? is_true(token, "normalized") : !special});
    }
  }

  void read_merges(const Json& merges, WrittenVocabulary& vocabulary) const {
    if (!merges.is_array()) throw refuse("model.merges is not a list");
    int64_t number = 0;
    for (const Json& merge : merges) {
      const std::string where = fmt::format("merge {}", ++number);
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        vocabulary.add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), where);
        continue;
      }
      const std::string_view text = merge.is_string() ? std::string_view(merge.get_ref<const std::string&>()) : "";
      const size_t space = text.find(' ');
      if (space == std::string_view::npos) throw refuse(where + " is not two tokens");
      vocabulary.add_merge(text.substr(0, space), text.substr(space + 1), where);
    }
  }

  const std::string& source_;
  const Json& root_;
  WordPattern pattern_ = WordPattern::gpt2;
  TextForm text_form_ = TextForm::as_it_is;
  bool has_pattern_ = false, is_byte_level_ = false, adds_prefix_space_ = false;
  std::vector<AddedToken> added_;
};

}  // namespace

BpeDefinition read_tokenizer_json(const std::string& source, std::string_view text) {
  const Json root = parse_json(source, text);
  return TokenizerJson(source, root).read();
}

}  // namespace trireme

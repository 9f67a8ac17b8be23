// Shared by the readers of vocab.json and tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>

#include "data/tokenizer/bpe_tokenizer.h"

namespace trireme {

// A vocabulary as files store it: tokens in the byte alphabet, and merges that name them.
class WrittenVocabulary {
 public:
  WrittenVocabulary(std::string source, const nlohmann::json& vocab);

  // Returns the id of a token as written, or -1.
  int32_t find(std::string_view written) const;
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

  // `where` identifies the merge in the error for an unknown token.
  void add_merge(std::string_view left, std::string_view right, std::string_view where);

  // Returns tokens of the form <...> that no merge produces: special tokens that the file does not mark.
  std::vector<AddedToken> find_special_tokens() const;

  // Call last. Tokens in `added` are not used to build words.
  BpeModel take_model(const std::vector<AddedToken>& added, WholeWords whole_words);

 private:
  void drop_repeated_merges();
  int32_t require(std::string_view written, std::string_view where) const;

  std::string source_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::string> tokens_;  // [id] their bytes
  std::vector<Merge> merges_;
};

nlohmann::json parse_json(const std::string& source, std::string_view text);

// Returns the id of the token of `added` with the given text, or without one the first of the usual names that is present; -1 if
// there is none.
int32_t choose_end_of_document(const std::vector<AddedToken>& added);

}  // namespace trireme

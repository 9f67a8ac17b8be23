// What the readers of vocab.json and of tokenizer.json share.
#pragma once

#include <nlohmann/json.hpp>

#include "data/tokenizer/bpe_tokenizer.h"

namespace trireme {

// A vocabulary as files write it: tokens in the byte alphabet, and merges that name them.
class WrittenVocabulary {
 public:
  WrittenVocabulary(std::string source, const nlohmann::json& vocab);

  // The id of a token as it is written; -1: there is none.
  int32_t find(std::string_view written) const;
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

  // `where` says which merge this is, for the error when a token is unknown.
  void add_merge(std::string_view left, std::string_view right, std::string_view where);

  // Tokens that no merge gives, of the form <...>: special, though the file does not say so.
  std::vector<AddedToken> find_special_tokens() const;

  // Last of all. Tokens in `added` are not part of what words are made of.
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

// The one of `added` with this text, or, when none is given, the first of the usual names that is there; -1: none.
int32_t choose_end_of_document(const std::vector<AddedToken>& added);

}  // namespace trireme

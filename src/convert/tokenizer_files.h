// The tokenizer that goes with a model. Weights without it are of little use, so export writes what transformers reads and import
// keeps what it finds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/tree.h"

namespace trireme {

// What export puts beside the weights.
struct TokenizerFiles {
  std::string description = "none known";
  std::vector<std::pair<std::filesystem::path, std::string>> copies;  // a file, and its name there
  std::vector<std::pair<std::string, std::string>> texts;             // a name there, and its contents
  std::optional<int64_t> end_token = {};                              // that ends a document
};

// The tokenizer of a recipe: the files that model.tokenizer names, or bytes for model.data.data_impl=text. UserError if a file is
// named and not there.
TokenizerFiles tokenizer_of(const Tree& recipe);

// Copies the tokenizer files of a model's folder to `to` and says in the recipe that they are at `final_place`. Does nothing if
// there are none. Returns a description.
std::string import_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to,
                             const std::filesystem::path& final_place, Tree& recipe);

// tokenizer.json of one token per byte and the end of a document as token 256.
std::string byte_tokenizer_json();

}  // namespace trireme

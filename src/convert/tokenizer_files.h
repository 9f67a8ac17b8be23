// The tokenizer of a model. Export writes what transformers reads, and import keeps what it finds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/tree.h"

namespace trireme {

// The tokenizer files that export writes beside the weights.
struct TokenizerFiles {
  std::string description = "none known";
  std::vector<std::pair<std::filesystem::path, std::string>> copies;  // source file -> name in the export
  std::vector<std::pair<std::string, std::string>> texts;             // name in the export -> contents
  std::optional<int64_t> end_token = {};                              // end-of-document token
};

// Returns the tokenizer of a recipe: the files of model.tokenizer, or bytes for model.data.data_impl=text. UserError if a named
// file does not exist.
TokenizerFiles tokenizer_of(const Tree& recipe);

// Copies the tokenizer files of a model's folder to `to` and sets their path in the recipe to `final_place`. Does nothing if
// there are none. Returns a description.
std::string import_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to,
                             const std::filesystem::path& final_place, Tree& recipe);

// Sets the keys of a recipe that name the tokenizer files of a model's folder, as if they were in `place`. Does nothing if there
// are none. Returns a description.
std::string name_tokenizer(const std::filesystem::path& folder, const std::filesystem::path& place, Tree& recipe);

}  // namespace trireme

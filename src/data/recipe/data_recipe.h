// Datasets by name: where a dataset is, its format, and what to make of it. Recipes are in recipes/data/*.yaml; any file with the
// keys below works, including the launcher's data_preparation files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/prepare/prepare.h"

namespace trireme {

struct DataRecipe {
  std::string name;  // as the user gave it

  std::vector<std::string> download_urls;   // folders with the files: the first, then fallbacks
  std::string file_name;                    // {00} marks the number and its digits
  std::string file_numbers;                 // "0-29", "0,3,5-7"; unused if the name has no number
  std::vector<std::string> tokenizer_urls;  // vocab.json and merges.txt, or tokenizer.json
  std::string tokenizer_save_dir = "bpe";   // below the output folder

  bool download_files = true;   // false: they are already in the downloads folder
  bool preprocess_data = true;  // false: download only
  bool rm_downloaded = true;    // remove each file once it is tokenized

  prepare::OutputFormat format = prepare::OutputFormat::megatron;
  std::string output_name = "data";
  bool append_eod = true;
  double validation = 0.0005;
  int64_t seed = 42;

  int64_t expected_file_bytes = 0;  // used if a server does not report it; 0: unknown
  double text_bytes_per_byte = 1;   // per byte of a downloaded file
  double token_bytes_per_text_byte = 0.6;
};

// Loads a shipped recipe, a file, or a launcher's conf/ whose defaults select one, with overrides (key=value). ${data_dir} is
// `output`. UserError for unknown keys.
DataRecipe load_data_recipe(const std::string& name, const std::vector<std::string>& overrides, const std::string& output);

struct RecipeFile {
  std::string name;    // as downloaded
  std::string number;  // zero-padded; empty if the recipe has one file
};
// UserError for malformed numbers.
std::vector<RecipeFile> files_of(const DataRecipe& recipe);

}  // namespace trireme

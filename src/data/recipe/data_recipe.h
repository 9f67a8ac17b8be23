// Datasets by name: where a dataset is, what it comes as, and what it should become. recipes/data/*.yaml hold them; so may any
// file with the keys below, among them those of the launcher's data_preparation files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/prepare/prepare.h"

namespace trireme {

struct DataRecipe {
  std::string name;  // as the user gave it

  std::vector<std::string> download_urls;   // folders that have the files: the first, and where to look if it fails
  std::string file_name;                    // with {00} where the number stands, with as many digits
  std::string file_numbers;                 // "0-29", "0,3,5-7"; not used if there is no number in the name
  std::vector<std::string> tokenizer_urls;  // vocab.json and merges.txt, or tokenizer.json
  std::string tokenizer_save_dir = "bpe";   // below the output folder

  bool download_files = true;   // false: they are in the downloads folder already
  bool preprocess_data = true;  // false: only download
  bool rm_downloaded = true;    // each file when its tokens are there

  prepare::OutputFormat format = prepare::OutputFormat::megatron;
  std::string output_name = "data";
  bool append_eod = true;
  double validation = 0.0005;
  int64_t seed = 42;

  int64_t expected_file_bytes = 0;  // where a server does not say; 0: not known
  double text_bytes_per_byte = 1;   // of a downloaded file
  double token_bytes_per_text_byte = 0.6;
};

// A shipped recipe, the path of a file, or a launcher's conf/ whose defaults choose one, with overrides (key=value). ${data_dir}
// is `output`. UserError for unknown keys.
DataRecipe load_data_recipe(const std::string& name, const std::vector<std::string>& overrides, const std::string& output);

struct RecipeFile {
  std::string name;    // as it is downloaded
  std::string number;  // with its digits; empty if the recipe has one file
};
// UserError for numbers that are not understood.
std::vector<RecipeFile> files_of(const DataRecipe& recipe);

}  // namespace trireme

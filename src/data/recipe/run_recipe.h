// Carries out a data recipe, stage by stage, below one folder:
//
//   OUTPUT/bpe/ or tokenizer/   the vocabulary            stage vocabulary
//   OUTPUT/downloads/           files as they came        stage download
//   OUTPUT/NAME_NN_text_document.bin, .idx, or OUTPUT/NAME/train.bin, val.bin     stage tokenize
//   OUTPUT/report.json          what each stage took
//
// Compressed files and archives are read as they are, so there is no stage that extracts them. Every stage goes on where it was
// stopped: what is there is not made again.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/recipe/data_recipe.h"
#include "fetch/fetch.h"

namespace trireme {

struct RecipeRun {
  DataRecipe recipe;
  std::string output;
  FetchRequest fetch;   // how to download: checksums, connections, time limits
  int64_t workers = 0;  // 0: one for each core this process may use
  int64_t memory = 0;   // 0: what is usual
  prepare::DryRun dry_run = prepare::DryRun::no;
};

struct RecipeHooks {
  std::function<bool()> stop;
  std::function<void(const std::string&)> tell;             // a line for the user
  std::function<void(const FetchProgress*)> show_download;  // null: there is nothing more to show
};

enum class RecipeOutcome : uint8_t { planned, complete, stopped, failed };

struct RecipeResult {
  RecipeOutcome outcome = RecipeOutcome::complete;
  nlohmann::json report;
};

RecipeResult run_data_recipe(const RecipeRun& run, const RecipeHooks& hooks);

// What it will take.
struct RecipeEstimate {
  int64_t files = 0, files_done = 0;
  int64_t download_bytes = 0, text_bytes = 0, token_bytes = 0;
  int64_t disk_needed = 0, disk_free = 0;
  double download_rate = 0, tokenize_rate = 0;  // bytes a second
  double seconds() const;
};

}  // namespace trireme

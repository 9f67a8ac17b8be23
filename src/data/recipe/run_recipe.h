// Runs a data recipe, stage by stage, below one folder:
//
//   OUTPUT/bpe/ or tokenizer/   the vocabulary            stage vocabulary
//   OUTPUT/downloads/           files as downloaded       stage download
//   OUTPUT/NAME_NN_text_document.bin, .idx, or OUTPUT/NAME/train.bin, val.bin     stage tokenize
//   OUTPUT/report.json          usage of each stage
//
// Compressed files and archives are read directly, so there is no extraction stage. Every stage resumes where it was stopped and
// does not repeat finished work.
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
  FetchRequest fetch;   // download options: checksums, connections, time limits
  int64_t workers = 0;  // 0: one per core available to this process
  int64_t memory = 0;   // 0: the default
  prepare::DryRun dry_run = prepare::DryRun::no;
};

struct RecipeHooks {
  std::function<bool()> stop;
  std::function<void(const std::string&)> tell;             // shows one line to the user
  std::function<void(const FetchProgress*)> show_download;  // null: the download display ends
};

enum class RecipeOutcome : uint8_t { planned, complete, stopped, failed };

struct RecipeResult {
  RecipeOutcome outcome = RecipeOutcome::complete;
  nlohmann::json report;
};

RecipeResult run_data_recipe(const RecipeRun& run, const RecipeHooks& hooks);

// The estimated cost of a recipe.
struct RecipeEstimate {
  int64_t files = 0, files_done = 0;
  int64_t download_bytes = 0, text_bytes = 0, token_bytes = 0;
  int64_t disk_needed = 0, disk_free = 0;
  double download_rate = 0, tokenize_rate = 0;  // bytes per second
  double seconds() const;
};

}  // namespace trireme

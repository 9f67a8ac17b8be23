// The folder that every import writes: a recipe, and one checkpoint.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "config/settings.h"
#include "config/tree.h"

namespace trireme {

struct ImportedRun {
  Settings settings;
  std::string heading;  // the first line of the recipe, a comment
  // The optimizer's state: whether there is one, and the updates and samples it has seen.
  bool has_optimizer = false;
  int64_t step = 0, updates = 0, consumed_samples = 0;
  // Fills a parameter, or with the prefix "first_moment." or "second_moment." a state of the optimizer.
  std::function<void(const std::string& name, std::span<float> to)> fill;
  // Copies the tokenizer to `to` and names it in the recipe as if it were in `final_place`. Returns a description.
  std::function<std::string(const std::filesystem::path& to, const std::filesystem::path& final_place, Tree& recipe)> tokenizer;
};

// Writes a new folder, one tensor at a time:
//   recipe.yaml                  the settings, and model.restore_from_path, which starts training from these weights
//   checkpoints/step-XXXXXXXX/   the weights in f32, and the optimizer's state if there is one
//   tokenizer/                   the tokenizer files
// Returns the description of the tokenizer.
std::string write_imported_run(const std::filesystem::path& output, const ImportedRun& run);

int64_t parameters_of(const ModelSettings& model);  // without padding

}  // namespace trireme

#include "launch/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/recipe/data_recipe.h"

namespace trireme {
namespace {

constexpr std::array kStages = {JobStage::data_preparation, JobStage::training, JobStage::conversion, JobStage::evaluation};

}  // namespace

std::vector<std::string> split_at_commas(const std::vector<std::string>& named) {
  std::vector<std::string> words;
  for (const std::string& text : named)
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      if (end > begin) words.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  return words;
}

std::vector<JobStage> stages_of(const std::vector<std::string>& named, const LauncherRequest& launcher) {
  std::vector<std::string> words = split_at_commas(named);
  if (named.empty()) {
    words = launcher.stages;
    if (launcher.no_training.empty()) words.push_back(name_of(JobStage::training));
  }
  std::vector<JobStage> stages;
  for (const JobStage stage : kStages)
    if (std::erase(words, name_of(stage)) > 0) stages.push_back(stage);
  if (!words.empty())
    throw UserError("stages: {} is not available; use data_preparation, training, conversion and evaluation", words.front());
  if (stages.empty()) throw UserError("{}", launcher.no_training);
  return stages;
}

std::vector<std::vector<std::string>> data_tasks(const std::string& data_recipe, const std::string& output,
                                                 const std::string& files) {
  DataRecipe recipe = load_data_recipe(data_recipe, {}, output);
  if (!files.empty()) recipe.file_numbers = files;
  const std::vector<RecipeFile> all = files_of(recipe);
  std::vector<std::vector<std::string>> tasks;
  const bool is_one_output = recipe.format != prepare::OutputFormat::megatron;
  if (is_one_output || all.size() < 2) {
    if (!files.empty()) tasks.push_back({"--files", files});
    return tasks;
  }
  for (const RecipeFile& file : all) tasks.push_back({"--files", fmt::format("{}", std::stoll(file.number))});
  return tasks;
}

}  // namespace trireme

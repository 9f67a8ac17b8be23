#include "launch/user_variables.h"

#include <cstdlib>

#include "base/error.h"
#include "launch/launch_name.h"

namespace trireme {
namespace {

// Fills one option from a variable of the environment.
void take_variable(LaunchRequest& request, const char* name, const char* option_name, const std::string& value,
                   std::vector<LaunchChoice>& choices) {
  const LaunchOption& option = *find_launch_option(option_name);
  GivenOptions from;
  set_option(from, option, scalar_from_text(value));
  if (request.options.has(option.name)) {
    GivenOptions own;
    own.values = request.options.values;
    own.places[option.name] = "";
    if (to_tree(own).text() != to_tree(from).text())
      throw UserError("--{} and {}={} in the environment differ; unset {} or leave out --{}", option_name, name, value, name,
                      option_name);
    return;
  }
  from.places[option.name] = fmt::format("{} in the environment", name);
  add_below(request.options, from);
  choices.push_back({fmt::format("--{} {}", option_name, value), fmt::format("{} in the environment", name)});
}

// The window of the proxy models' launcher: the last steps of a run of ten.
void choose_profiled_steps(LaunchRequest& request, std::vector<LaunchChoice>& choices) {
  for (const auto& [key, value] : {std::pair{"model.nsys_profile.start_step", 7}, std::pair{"model.nsys_profile.end_step", 10},
                                   std::pair{"trainer.max_steps", 10}}) {
    if (overridden_count(request.overrides, key)) continue;
    const bool is_optional = std::string_view(key).starts_with("model.nsys_profile.");
    request.overrides.push_back(fmt::format("{}{}={}", is_optional ? "++" : "", key, value));
    choices.push_back({request.overrides.back(), "ENABLE_NSYS_PROFILE in the environment"});
  }
}

// Where only settings are given, the first of them stands in the recipe's place.
bool names_recipe(const std::string& word) {
  return !word.empty() && (word.find('=') == word.npos || word.starts_with("training="));
}

// The variables of AWS users' scripts.
void apply_slurm_variables(LaunchRequest& request, std::vector<LaunchChoice>& choices) {
  if (const char* size = user_variable("MODEL_SIZE"); size != nullptr && !names_recipe(request.recipe)) {
    if (!request.recipe.empty()) request.overrides.insert(request.overrides.begin(), request.recipe);
    const char* model = user_variable("MODEL_NAME");
    request.recipe = fmt::format("{}/{}", model == nullptr ? "gpt3" : model, size);
    choices.push_back({"recipe " + request.recipe, "MODEL_NAME and MODEL_SIZE in the environment"});
  }
  if (const char* nodes = user_variable("NODES")) take_variable(request, "NODES", "nodes", nodes, choices);
  if (const char* image = user_variable("IMAGE")) take_variable(request, "IMAGE", "image", image, choices);
  if (const char* steps = user_variable("MAX_STEPS");
      steps != nullptr && !overridden_count(request.overrides, "trainer.max_steps")) {
    request.overrides.push_back(fmt::format("trainer.max_steps={}", steps));
    choices.push_back({request.overrides.back(), "MAX_STEPS in the environment"});
  }
  const char* suffix = user_variable("JOB_SUFFIX");
  if (const char* name = user_variable("JOB_NAME")) {
    take_variable(request, "JOB_NAME", "name", name, choices);
  } else if (suffix != nullptr && !request.options.has("name") && !request.recipe.empty()) {
    take_variable(request, "JOB_SUFFIX", "name", default_name(request.recipe, request.options.values.nodes) + suffix, choices);
  }
}

}  // namespace

const char* user_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

bool profiles_first_node() {
  const char* says = user_variable("ENABLE_NSYS_PROFILE");
  return says != nullptr && std::string_view(says) == "true";
}

std::vector<LaunchChoice> apply_environment(LaunchRequest& request) {
  std::vector<LaunchChoice> choices;
  if (request.target == TargetKind::slurm) apply_slurm_variables(request, choices);
  if (!profiles_first_node()) return choices;
  take_variable(request, "ENABLE_NSYS_PROFILE", "nsys", "true", choices);
  choose_profiled_steps(request, choices);
  return choices;
}

}  // namespace trireme

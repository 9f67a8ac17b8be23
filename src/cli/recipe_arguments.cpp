#include "cli/recipe_arguments.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/process.h"
#include "config/settings_printer.h"
#include "train/model_source.h"

namespace trireme {

namespace {

// What makes a model's weights fit, and its texts mean the same.
constexpr std::array kArchitecture = {"encoder_seq_length",
                                      "max_position_embeddings",
                                      "num_layers",
                                      "hidden_size",
                                      "ffn_hidden_size",
                                      "num_attention_heads",
                                      "num_query_groups",
                                      "kv_channels",
                                      "vocab_size",
                                      "normalization",
                                      "layernorm_zero_centered_gamma",
                                      "layernorm_epsilon",
                                      "position_embedding_type",
                                      "rotary_percentage",
                                      "rotary_base",
                                      "scale_positional_embedding",
                                      "seq_len_interpolation_factor",
                                      "rope_scaling.rope_type",
                                      "rope_scaling.factor",
                                      "rope_scaling.low_freq_factor",
                                      "rope_scaling.high_freq_factor",
                                      "rope_scaling.original_max_position_embeddings",
                                      "activation",
                                      "bias",
                                      "share_embeddings_and_output_weights",
                                      "parallel_residual",
                                      "shared_attention_norm",
                                      "tokenizer.library",
                                      "tokenizer.type",
                                      "tokenizer.model",
                                      "tokenizer.vocab_file",
                                      "tokenizer.merge_file"};

// A text as the value of an override.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "'";
}

std::vector<std::string> overrides_from(const std::string& model) {
  const Tree settings = to_tree(open_model_source(model).settings);
  std::vector<std::string> overrides{fmt::format("++model.restore_from_path={}", quoted(model))};
  for (const char* key : kArchitecture) {
    const Tree* value = settings.find(std::string("model.") + key);
    CHECK(value != nullptr);
    overrides.push_back(fmt::format("++model.{}={}", key, value->is_string() ? quoted(value->string()) : value->text()));
  }
  return overrides;
}

}  // namespace

void RecipeArguments::add_to(CLI::App& command) {
  command
      .add_option("recipe", recipe,
                  "a shipped recipe (trireme recipes lists them), the path of a YAML file or of a launcher's conf folder, or "
                  "training=NAME")
      ->capture_default_str();
  command.add_option("overrides", overrides, "settings as key=value (trireme config --keys lists them)");
  command.add_option("--config-path", config_path, "folder of the recipe, as Hydra has it; then every argument is key=value");
  command.add_option("--config-name", config_name, "file in that folder, config.yaml if not given");
  command.add_option("--gpu", gpu,
                     "GPU that the memory of a rank is compared with: h100-80, h200-141, a100-40, ...; if not given, "
                     "the one in the recipe's name, else h100-80");
  command.add_flag("--verbose", verbose, "list the keys of the recipe that have no effect here, by reason");
}

ResolvedRecipe RecipeArguments::resolve(std::vector<std::string> more_overrides, Validation validation) const {
  std::vector<std::string> changes;
  if (!from.empty()) changes = overrides_from(from);
  changes.insert(changes.end(), overrides.begin(), overrides.end());
  std::string name = recipe;
  if (!config_path.empty() || !config_name.empty()) {
    const bool recipe_given = recipe != RecipeArguments{}.recipe;
    if (recipe_given) changes.insert(changes.begin(), recipe);
    std::string file = config_name.empty() ? "config" : config_name;
    if (!file.ends_with(".yaml") && !file.ends_with(".yml")) file += ".yaml";
    name = (std::filesystem::path(config_path.empty() ? "." : config_path) / file).string();
  }
  for (std::string& change : more_overrides) changes.push_back(std::move(change));
  return resolve_recipe(name, changes, validation);
}

std::string RecipeArguments::text() const {
  std::string line;
  if (!config_path.empty()) line += fmt::format("--config-path {} ", shell_word(config_path));
  if (!config_name.empty()) line += fmt::format("--config-name {} ", shell_word(config_name));
  line += shell_word(recipe);
  if (!from.empty()) line += " --from " + shell_word(from);
  for (const std::string& change : overrides) line += " " + shell_word(change);
  return line;
}

}  // namespace trireme

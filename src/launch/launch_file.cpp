#include "launch/launch_file.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "config/recipe.h"
#include "config/suggestions.h"
#include "config/yaml.h"

namespace trireme {
namespace {

constexpr int64_t kVersion = 1;
constexpr std::array kTargets = {TargetKind::local, TargetKind::slurm, TargetKind::kubernetes};

// Keys of the launcher's settings and the options that they are.
struct LauncherName {
  std::string_view key, option;
};
constexpr std::array kLauncherNames = {
    LauncherName{"container", "image"},
    LauncherName{"container_mounts", "mount"},
    LauncherName{"env_vars", "env"},
    LauncherName{"base_results_dir", "results"},
    LauncherName{"data_dir", "data"},
    LauncherName{"cluster.partition", "partition"},
    LauncherName{"cluster.account", "account"},
    LauncherName{"cluster.exclusive", "exclusive"},
    LauncherName{"cluster.gpus_per_node", "gpus-per-node"},
    LauncherName{"cluster.mem", "mem"},
    LauncherName{"cluster.job_name_prefix", "job-name-prefix"},
    LauncherName{"cluster.srun_args", "srun-arg"},
    LauncherName{"numa_mapping.mode", "numa-mode"},
    LauncherName{"numa_mapping.scope", "numa-scope"},
    LauncherName{"numa_mapping.cores", "numa-cores"},
    LauncherName{"numa_mapping.balanced", "numa-balanced"},
    LauncherName{"numa_mapping.min_cores", "numa-min-cores"},
    LauncherName{"numa_mapping.max_cores", "numa-max-cores"},
};

bool is_false(const Tree* value) {
  return value == nullptr || value->is_null() || (value->kind() == Tree::Kind::boolean && !value->boolean());
}

Tree written_value(const LauncherName& name, const Tree& value) {
  // mem: 0 is a number in the launcher's file and a word in Slurm's options.
  if (name.option == "mem") return Tree(value.text(), value.origin);
  return value;
}

[[noreturn]] void throw_unknown(const std::string& key, const Tree& value, std::vector<std::string> known) {
  for (const LaunchOption& option : launch_option_table()) known.push_back(file_key(option));
  throw UserError("{} is not a key of this file{}{}", key, did_you_mean(key, known), value.where_suffix());
}

bool is_shipped(const std::string& recipe) {
  const auto shipped = shipped_recipes();
  return std::ranges::find(shipped, recipe, &ShippedRecipe::name) != shipped.end();
}

// A recipe that is a file is named from the folder of the launch file.
std::string recipe_from(const std::string& launch_file, const std::string& recipe) {
  const std::filesystem::path beside = std::filesystem::path(launch_file).parent_path() / recipe;
  std::error_code failed;
  const bool is_file = !recipe.empty() && !is_shipped(recipe) && std::filesystem::exists(beside, failed);
  return is_file ? beside.lexically_normal().string() : recipe;
}

Texts words_of(const Tree& value, const std::string& key) {
  if (!value.is_list()) throw UserError("{}={}: use a list{}", key, value.brief(), value.where_suffix());
  Texts words;
  for (const Tree& word : value.list()) words.push_back(word.text());
  return words;
}

void require_version(const Tree& file, const std::string& path) {
  const Tree* version = file.find("launch");
  if (version == nullptr)
    throw UserError("{} is not a launch file: it has no line `launch: {}`; name a target first: trireme launch local {}", path,
                    kVersion, path);
  if (version->kind() != Tree::Kind::integer || version->integer() < 1)
    throw UserError("launch={}: use {}{}", version->brief(), kVersion, version->where_suffix());
  if (version->integer() > kVersion)
    throw UserError("{}: this file has version {}, and this program reads versions up to {}; use a newer trireme", path,
                    version->integer(), kVersion);
}

}  // namespace

std::optional<TargetKind> find_target(std::string_view name) {
  for (const TargetKind kind : kTargets)
    if (name_of(kind) == name) return kind;
  return std::nullopt;
}

std::optional<std::string> overridden_text(const std::vector<std::string>& overrides, const std::string& key) {
  std::optional<std::string> value;
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    const size_t begin = text.find_first_not_of('+');
    if (text.substr(begin, equals - begin) == key || text.substr(begin, equals - begin) == "training." + key)
      value = text.substr(equals + 1);
  }
  return value;
}

std::optional<int64_t> overridden_count(const std::vector<std::string>& overrides, const std::string& key) {
  const std::optional<std::string> value = overridden_text(overrides, key);
  return value ? std::optional<int64_t>(std::atoll(value->c_str())) : std::nullopt;
}

LaunchRequest read_launch_file(const std::string& path) {
  const Tree file = read_yaml_file(path);
  if (!file.is_map()) throw UserError("{} is not a launch file: it has no keys", path);
  require_version(file, path);
  LaunchRequest request;
  bool has_target = false;
  for (const Tree::Entry& entry : file.map()) {
    if (entry.key == "launch") continue;
    if (entry.key == "target") {
      const auto kind = find_target(entry.value.text());
      if (!kind) throw UserError("target={}: use local, slurm or kubernetes{}", entry.value.brief(), entry.value.where_suffix());
      request.target = *kind, has_target = true;
    } else if (entry.key == "recipe") {
      request.recipe = recipe_from(path, entry.value.text());
    } else if (entry.key == "overrides") {
      request.overrides = words_of(entry.value, entry.key);
    } else if (const LaunchOption* option = find_launch_option(entry.key)) {
      set_option(request.options, *option, entry.value);
    } else {
      throw_unknown(entry.key, entry.value, {"launch", "target", "recipe", "overrides"});
    }
  }
  if (!has_target || request.recipe.empty()) throw UserError("{}: a launch file needs `target:` and `recipe:`", path);
  return request;
}

std::string write_launch_file(const LaunchRequest& request, const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::string recipe = request.recipe;
  if (std::error_code failed; fs::path(recipe).is_relative() && !is_shipped(recipe) && fs::exists(recipe, failed))
    recipe = fs::absolute(recipe).lexically_normal().lexically_relative(fs::absolute(folder).lexically_normal()).string();
  Tree file(Tree::Map{});
  file.map().push_back({"launch", Tree(kVersion)});
  file.map().push_back({"target", Tree(name_of(request.target))});
  file.map().push_back({"recipe", Tree(recipe)});
  Tree::List overrides;
  for (const std::string& text : request.overrides) overrides.emplace_back(std::string(text));
  if (!overrides.empty()) file.map().push_back({"overrides", Tree(std::move(overrides))});
  const Tree options = to_tree(request.options);
  file.map().insert(file.map().end(), options.map().begin(), options.map().end());
  return write_yaml(file);
}

GivenOptions read_site_file(const std::string& path) {
  const Tree file = read_yaml_file(path);
  if (!file.is_map()) throw UserError("{} is not a site file: it has no keys", path);
  GivenOptions options = read_launcher_settings(file);
  for (const Tree::Entry& entry : file.map()) {
    const auto begins = [&](const LauncherName& name) { return split_path(name.key).key == entry.key; };
    if (std::ranges::any_of(kLauncherNames, begins)) continue;
    const LaunchOption* option = find_launch_option(entry.key);
    if (option == nullptr) throw_unknown(entry.key, entry.value, {"env_vars", "container_mounts"});
    set_option(options, *option, entry.value);
  }
  return options;
}

GivenOptions read_launcher_settings(const Tree& settings) {
  GivenOptions options;
  if (!settings.is_map()) return options;
  const Tree* mapping = settings.find("numa_mapping.enable");
  const bool maps_numa = mapping == nullptr || !is_false(mapping);
  for (const LauncherName& name : kLauncherNames) {
    const Tree* value = settings.find(name.key);
    if (value == nullptr || (name.key.starts_with("numa_mapping.") && !maps_numa)) continue;
    if (value->is_string() && (value->string().empty() || value->string() == "???")) continue;
    set_option(options, *find_launch_option(name.option), written_value(name, *value));
  }
  return options;
}

std::string find_site_file(const std::string& named) {
  if (!named.empty()) return named;
  if (const char* path = std::getenv("TRIREME_SITE"); path != nullptr && *path != '\0') return path;
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  const std::filesystem::path path = std::filesystem::path(home) / ".config/trireme/site.yaml";
  std::error_code failed;
  return std::filesystem::exists(path, failed) ? path.string() : std::string{};
}

void require_for_target(const GivenOptions& options, TargetKind target) {
  for (const LaunchOption& option : launch_option_table()) {
    const auto place = options.places.find(option.name);
    if (place == options.places.end() || is_for(option, target)) continue;
    throw UserError("{} has no effect on {}; remove it ({})", file_key(option), name_of(target), place->second);
  }
}

}  // namespace trireme

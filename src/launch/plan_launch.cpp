#include "launch/plan_launch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ranges>

#include "backend/cuda_module.h"
#include "base/error.h"
#include "base/units.h"
#include "config/validate.h"
#include "config/yaml.h"
#include "data/open/open_dataset.h"
#include "launch/environment.h"
#include "launch/stages.h"
#include "launch/sweep.h"
#include "train/target_plan.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

// The value that the user's own overrides give to a key; nothing if they do not.
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

std::optional<int64_t> overridden(const std::vector<std::string>& overrides, const std::string& key) {
  const std::optional<std::string> value = overridden_text(overrides, key);
  return value ? std::optional<int64_t>(std::atoll(value->c_str())) : std::nullopt;
}

// The one count of nodes, or of ranks per node: the option, or the setting. Both, and different, is an error.
int64_t agreed_count(const LaunchRequest& request, int64_t option, const char* option_name, const char* key, int64_t in_recipe) {
  if (option == 0 && request.options.has(option_name)) throw UserError("--{} 0: use 1 or more", option_name);
  const std::optional<int64_t> set = overridden(request.overrides, key);
  if (option > 0 && set && *set != option)
    throw UserError("--{} {} and {}={} disagree; give one of them", option_name, option, key, *set);
  return option > 0 ? option : in_recipe;
}

// Whether ENABLE_NSYS_PROFILE asks for profiles of all ranks of the first node.
bool variable_says_profile() {
  const char* says = variable("ENABLE_NSYS_PROFILE");
  return says != nullptr && std::string_view(says) == "true";
}

// Nodes of which this process is one: in a pod of an indexed job.
std::optional<int64_t> nodes_of_pod() {
  if (variable("JOB_COMPLETION_INDEX") == nullptr) return std::nullopt;
  const char* nodes = variable("NNODES");
  return nodes == nullptr ? std::nullopt : std::optional<int64_t>(std::atoll(nodes));
}

struct Size {
  int64_t nodes = 1, ranks = 1;
};

Size size_of_run(const LaunchRequest& request, const Settings& settings) {
  const LaunchOptions& options = request.options.values;
  Size size{agreed_count(request, options.nodes, "nodes", "trainer.num_nodes", settings.trainer.num_nodes),
            agreed_count(request, options.ranks, "ranks", "trainer.devices", settings.trainer.devices)};
  if (request.target != TargetKind::local) return size;
  if (const auto pods = nodes_of_pod()) {
    if (options.nodes > 0 && options.nodes != *pods) throw UserError("--nodes {} and NNODES={} disagree", options.nodes, *pods);
    size.nodes = *pods;
  } else if (size.nodes != 1) {
    throw UserError("{} is for {} nodes and this is one machine; add --nodes 1 --ranks N, or launch it with slurm or kubernetes",
                    request.recipe, size.nodes);
  }
  return size;
}

bool uses_gpus(TargetKind target, BackendKind backend) {
  if (backend == BackendKind::cuda) return true;
  if (backend != BackendKind::automatic) return false;
  return target != TargetKind::local || cuda_device_count() > 0;
}

class Planner {
 public:
  Planner(LaunchRequest request, const std::string& site_file) {
    plan_.request = std::move(request);
    add_sites(site_file);
  }

  LaunchPlan plan() {
    const ResolvedRecipe base = resolve_recipe(plan_.request.recipe, plan_.request.overrides, Validation::by_the_caller);
    add_below(plan_.request.options, for_target(read_launcher_settings(base.launcher_settings)));
    take_run_settings(base);
    size_ = size_of_run(plan_.request, base.settings);
    choose_name();
    stages_ = stages_of(options().stages, base.launcher);
    environment_ = launch_environment(plan_.request, plan_.choices);
    const bool trains = std::ranges::find(stages_, JobStage::training) != stages_.end();
    if (std::ranges::find(stages_, JobStage::data_preparation) != stages_.end()) add_data_job();
    if (trains) add_training_jobs();
    if (std::ranges::find(stages_, JobStage::conversion) != stages_.end()) add_conversion_job(trains);
    return std::move(plan_);
  }

 private:
  const LaunchOptions& options() const { return plan_.request.options.values; }

  void add_sites(const std::string& site_file) {
    const std::string path = find_site_file(site_file);
    if (path.empty()) return;
    add_below(plan_.request.options, for_target(read_site_file(path)));
    plan_.choices.push_back({"site " + path, "partition, image, folders and environment that the command does not give"});
  }

  // A site describes several targets; a launch takes the options of its own.
  GivenOptions for_target(GivenOptions options) const {
    for (const LaunchOption& option : launch_option_table())
      if (!is_for(option, plan_.request.target)) options.places.erase(option.name);
    return options;
  }

  // run.time_limit and run.dependency of a recipe are the scheduler's.
  void take_run_settings(const ResolvedRecipe& recipe) {
    if (plan_.request.target != TargetKind::slurm) return;
    for (const auto& [key, name] : {std::pair{"run.time_limit", "time"}, std::pair{"run.dependency", "dependency"}}) {
      const Tree* value = recipe.tree.find(key);
      if (value == nullptr || value->is_null() || plan_.request.options.has(name)) continue;
      set_option(plan_.request.options, *find_launch_option(name), *value);
      plan_.choices.push_back({fmt::format("--{} {}", name, value->text()), fmt::format("{} of the recipe", key)});
    }
  }

  void choose_name() {
    GivenOptions& given = plan_.request.options;
    plan_.name = given.values.name;
    if (plan_.name.empty()) {
      plan_.name = default_name(plan_.request.recipe, plan_.request.target == TargetKind::local ? 1 : size_.nodes);
      plan_.choices.push_back({"--name " + plan_.name, "made from the recipe and the number of nodes"});
    }
    require_launch_name(plan_.name);
    const fs::path results = options().results.empty() ? "runs" : options().results;
    plan_.folder = fs::absolute(results / plan_.name).lexically_normal();
  }

  // The job of a stage, with what all stages share.
  Job make_job(const std::string& name, JobStage stage) const {
    Job job;
    job.name = name;
    job.stage = stage;
    job.environment = environment_;
    job.folder = plan_.folder;
    if (!options().image.empty()) {
      job.container = Container{.runtime = container_runtime(), .image = options().image, .mounts = mounts_of(options())};
      job.container->mounts.push_back({plan_.folder.string(), plan_.folder.string()});
    }
    return job;
  }

  std::string container_runtime() const {
    if (plan_.request.target == TargetKind::slurm) return "pyxis";
    if (plan_.request.target == TargetKind::kubernetes) return "";
    if (options().container.empty())
      throw UserError("image={} needs a runtime on this machine: --container docker|podman|ctr|enroot IMAGE", options().image);
    return options().container;
  }

  // In an image the program is on the path; elsewhere it is this one, which nodes share.
  std::string program() const {
    const bool is_elsewhere = !options().image.empty() || plan_.request.target == TargetKind::kubernetes;
    return is_elsewhere ? "trireme" : fs::read_symlink("/proc/self/exe").string();
  }

  void add_data_job() {
    Job job = make_job(plan_.name + "-data", JobStage::data_preparation);
    const std::string recipe = options().data_recipe.empty() ? plan_.request.recipe : options().data_recipe;
    const fs::path output = options().data.empty() ? plan_.folder / "data" : fs::absolute(options().data);
    job.command = {program(), "data", "run", recipe, "--output", output.string()};
    job.tasks = data_tasks(recipe, output.string(), options().files);
    job.tasks_at_once = options().tasks_at_once;
    if (!job.tasks.empty()) plan_.choices.push_back({fmt::format("{} tasks", job.tasks.size()), "one per file of " + recipe});
    plan_.jobs.push_back(std::move(job));
  }

  void add_training_jobs() {
    const auto points = sweep_points(options().sweep);
    std::vector<std::string> names;
    for (size_t i = 0; i < points.size(); ++i) {
      const bool is_sweep = !options().sweep.empty();
      const std::string name = is_sweep ? fmt::format("{}-{}", plan_.name, i + 1) : plan_.name;
      if (!is_sweep) return add_training(name, plan_.folder, {});
      try {
        add_training(name, plan_.folder / fmt::format("point-{}", i + 1), points[i]);
        plan_.sweep.push_back({name, points[i], ""});
      } catch (const UserError& error) {
        plan_.sweep.push_back({"", points[i], error.what()});
      }
    }
    if (std::ranges::all_of(plan_.sweep, [](const SweepPoint& point) { return point.job.empty(); }))
      throw UserError("no combination of the sweep passes the checks; the first fails with: {}", plan_.sweep.front().reason);
  }

  void add_training(const std::string& name, const fs::path& folder, const std::vector<std::string>& point) {
    Job job = make_job(name, JobStage::training);
    job.folder = folder;
    const auto own_folder = overridden_text(plan_.request.overrides, "exp_manager.explicit_log_dir");
    job.run_folder = own_folder ? fs::path(*own_folder) : folder / "results";
    job.nodes = size_.nodes;
    job.ranks_per_node = size_.ranks;
    std::vector<std::string> overrides = plan_.request.overrides;
    overrides.insert(overrides.end(), point.begin(), point.end());
    overrides.push_back(fmt::format("++trainer.num_nodes={}", size_.nodes));
    overrides.push_back(fmt::format("++trainer.devices={}", size_.ranks));
    overrides.push_back(fmt::format("++exp_manager.explicit_log_dir={}", job.run_folder.string()));
    if (options().nsys) overrides.emplace_back("++model.nsys_profile.enabled=true");
    if (variable_says_profile() && !overridden(overrides, "model.nsys_profile.ranks"))
      overrides.push_back(
          fmt::format("++model.nsys_profile.ranks=[{}]", fmt::join(std::views::iota(int64_t{0}, size_.ranks), ",")));
    const ResolvedRecipe recipe = resolve_recipe(plan_.request.recipe, overrides);
    recipe.require_training();
    job.has_gpus = uses_gpus(plan_.request.target, recipe.settings.trainer.backend);
    require_memory(recipe.settings);
    job.command = {program(), "train"};
    name_recipe(job, recipe, overrides);
    for (const auto& [is_given, option] : {std::pair{options().benchmark, "--benchmark"}, std::pair{options().mllog, "--mllog"},
                                           std::pair{options().trace_ops, "--trace-ops"}})
      if (is_given) job.command.emplace_back(option);
    wrap_for_profiler(job, recipe.settings);
    if (plan_.jobs.size() == 1 && plan_.jobs[0].stage == JobStage::data_preparation) job.after = {plan_.jobs[0].name};
    plan_.jobs.push_back(std::move(job));
  }

  // The resolved recipe is written before the job starts, so that an edit while it waits in a queue changes nothing. A shipped
  // recipe goes into an image by its name, because its files are there too; Kubernetes takes the resolved one from a ConfigMap.
  void name_recipe(Job& job, const ResolvedRecipe& recipe, const std::vector<std::string>& overrides) {
    const auto shipped = shipped_recipes();
    const bool is_shipped = std::ranges::find(shipped, plan_.request.recipe, &ShippedRecipe::name) != shipped.end();
    if (is_shipped && program() == "trireme" && plan_.request.target != TargetKind::kubernetes) {
      job.command.push_back(plan_.request.recipe);
      job.command.insert(job.command.end(), overrides.begin(), overrides.end());
      return;
    }
    job.recipe = job.folder / (job.name + "_hydra.yaml");
    job.recipe_text = write_yaml(recipe.tree);
    plan_.files.push_back({job.recipe, job.recipe_text});
    job.command.push_back(job.recipe.string());
  }

  void require_memory(Settings settings) {
    if (options().gpu.empty()) return;
    const GpuKind& gpu = find_gpu(options().gpu);
    ModelSettings& model = settings.model;
    if (model.vocab_size == 0) model.vocab_size = default_vocabulary(model.data, model.tokenizer);
    const TargetPlan memory = plan_for_target(settings, gpu);
    if (memory.left() < 0)
      throw UserError("rank {} needs {} and {} has {}: {} too much; trireme train {} --dry-run --gpu {} shows where it goes",
                      memory.rank, format_bytes(memory.total), gpu.name, format_bytes(gpu.memory), format_bytes(-memory.left()),
                      plan_.request.recipe, gpu.name);
    const LaunchChoice fits{fmt::format("memory {} of {} on {}", format_bytes(memory.total), format_bytes(gpu.memory), gpu.name),
                            fmt::format("of rank {}, which needs most", memory.rank)};
    if (plan_.request.options.values.sweep.empty()) plan_.choices.push_back(fits);
  }

  void wrap_for_profiler(Job& job, const Settings& settings) {
    const ProfileSettings& profile = settings.model.profile;
    if (!profile.enabled || profile.ranks.empty() || !job.has_gpus) return;
    const std::vector<std::string> wrapper = profiler_command(job, settings);
    job.command.insert(job.command.begin(), wrapper.begin(), wrapper.end());
    plan_.choices.push_back({"nsys on ranks of model.nsys_profile.ranks", "model.nsys_profile.enabled=true"});
  }

  void add_conversion_job(bool trains) {
    Job job = make_job(plan_.name + "-conversion", JobStage::conversion);
    job.command = {program(), "export",   (plan_.folder / "results").string(), "--to",
                   "hf",      "--output", (plan_.folder / "hf").string()};
    if (!options().sweep.empty()) throw UserError("stages: conversion does not go with --sweep; convert the run you choose");
    if (trains) job.after = {plan_.name};
    plan_.jobs.push_back(std::move(job));
  }

  LaunchPlan plan_;
  Size size_;
  std::vector<JobStage> stages_;
  std::vector<EnvironmentVariable> environment_;
};

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
    if (overridden(request.overrides, key)) continue;
    const bool is_optional = std::string_view(key).starts_with("model.nsys_profile.");
    request.overrides.push_back(fmt::format("{}{}={}", is_optional ? "++" : "", key, value));
    choices.push_back({request.overrides.back(), "ENABLE_NSYS_PROFILE in the environment"});
  }
}

// The variables of AWS users' scripts.
void apply_slurm_variables(LaunchRequest& request, std::vector<LaunchChoice>& choices) {
  if (const char* size = variable("MODEL_SIZE"); size != nullptr && request.recipe.empty()) {
    const char* model = variable("MODEL_NAME");
    request.recipe = fmt::format("{}/{}", model == nullptr ? "gpt3" : model, size);
    choices.push_back({"recipe " + request.recipe, "MODEL_NAME and MODEL_SIZE in the environment"});
  }
  if (const char* nodes = variable("NODES")) take_variable(request, "NODES", "nodes", nodes, choices);
  if (const char* image = variable("IMAGE")) take_variable(request, "IMAGE", "image", image, choices);
  if (const char* steps = variable("MAX_STEPS"); steps != nullptr && !overridden(request.overrides, "trainer.max_steps")) {
    request.overrides.push_back(fmt::format("trainer.max_steps={}", steps));
    choices.push_back({request.overrides.back(), "MAX_STEPS in the environment"});
  }
  const char* suffix = variable("JOB_SUFFIX");
  if (const char* name = variable("JOB_NAME")) {
    take_variable(request, "JOB_NAME", "name", name, choices);
  } else if (suffix != nullptr && !request.options.has("name") && !request.recipe.empty()) {
    take_variable(request, "JOB_SUFFIX", "name", default_name(request.recipe, request.options.values.nodes) + suffix, choices);
  }
}

}  // namespace

bool is_in_pod() { return nodes_of_pod().has_value(); }

LaunchPlan plan_launch(LaunchRequest request, const std::string& site_file) {
  return Planner(std::move(request), site_file).plan();
}

std::vector<LaunchChoice> apply_environment(LaunchRequest& request) {
  std::vector<LaunchChoice> choices;
  if (request.target == TargetKind::slurm) apply_slurm_variables(request, choices);
  if (!variable_says_profile()) return choices;
  take_variable(request, "ENABLE_NSYS_PROFILE", "nsys", "true", choices);
  choose_profiled_steps(request, choices);
  return choices;
}

std::string default_name(const std::string& recipe, int64_t nodes) {
  std::string text = recipe;
  for (const char* ending : {".yaml", ".yml"})
    if (text.ends_with(ending)) text = fs::path(text).stem().string();
  if (fs::path(text).is_absolute() || text.starts_with('.')) text = fs::path(text).lexically_normal().filename().string();
  std::string name;
  for (const char c : text) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_word)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (name.ends_with('-')) name.pop_back();
  if (name.empty()) name = "run";
  return nodes > 1 ? fmt::format("{}{}", name, nodes) : name;
}

void require_launch_name(const std::string& name) {
  constexpr size_t kLongest = 48;  // a Kubernetes label has 63, and stages append to it
  const auto is_allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, is_allowed) || name.front() == '-' ||
      name.back() == '-')
    throw UserError("--name {}: use at most {} lower case letters, digits and dashes, without a dash at an end", name, kLongest);
}

}  // namespace trireme

#include "launch/plan_launch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <numeric>

#include "backend/cuda_module.h"
#include "base/error.h"
#include "base/units.h"
#include "config/validate.h"
#include "config/yaml.h"
#include "data/open/open_dataset.h"
#include "evaluate/task.h"
#include "launch/environment.h"
#include "launch/launch_name.h"
#include "launch/stages.h"
#include "launch/sweep.h"
#include "launch/user_variables.h"
#include "train/target_plan.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// The one count of nodes, or of ranks per node: the option, or the setting. Both, and different, is an error.
int64_t agreed_count(const LaunchRequest& request, int64_t option, const char* option_name, const char* key, int64_t in_recipe) {
  if (option == 0 && request.options.has(option_name)) throw UserError("--{} 0: use 1 or more", option_name);
  const std::optional<int64_t> set = overridden_count(request.overrides, key);
  if (option > 0 && set && *set != option)
    throw UserError("--{} {} and {}={} disagree; give one of them", option_name, option, key, *set);
  return option > 0 ? option : in_recipe;
}

// Nodes of which this process is one: in a pod of an indexed job.
std::optional<int64_t> nodes_of_pod() {
  if (user_variable("JOB_COMPLETION_INDEX") == nullptr) return std::nullopt;
  const char* nodes = user_variable("NNODES");
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
    if (options().validate) require_checkable(trains);
    if (std::ranges::find(stages_, JobStage::data_preparation) != stages_.end()) add_data_job();
    if (trains) add_training_jobs();
    if (std::ranges::find(stages_, JobStage::conversion) != stages_.end()) add_conversion_job(trains);
    if (std::ranges::find(stages_, JobStage::evaluation) != stages_.end()) add_evaluation_job(trains, base.settings);
    if (options().validate) add_checks();
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
    require_launch_name(plan_.name, plan_.request.target);
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
    if (profiles_first_node() && !overridden_count(overrides, "model.nsys_profile.ranks")) {
      std::vector<int64_t> ranks(static_cast<size_t>(size_.ranks));
      std::iota(ranks.begin(), ranks.end(), 0);
      overrides.push_back(fmt::format("++model.nsys_profile.ranks=[{}]", fmt::join(ranks, ",")));
    }
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

  // The shipped tasks by their names and files of the user by their paths, all of which can be read.
  std::vector<std::string> evaluation_tasks() const {
    std::vector<std::string> tasks;
    const auto shipped = shipped_tasks();
    load_tasks(split_at_commas(options().tasks), "--tasks");
    for (const std::string& named : split_at_commas(options().tasks)) {
      const bool is_shipped = std::ranges::find(shipped, named) != shipped.end();
      if (!is_shipped && plan_.request.target == TargetKind::kubernetes)
        throw UserError("--tasks {}: pods have only the tasks of the image, not the files of this machine; use {}", named,
                        fmt::join(shipped, ","));
      tasks.push_back(is_shipped ? named : fs::absolute(named).lexically_normal().string());
    }
    if (tasks.empty()) throw UserError("stages: evaluation needs --tasks, such as {}", fmt::join(shipped, ","));
    return tasks;
  }

  // One node scores the newest checkpoint; in a pod, one rank.
  void add_evaluation_job(bool trains, const Settings& settings) {
    Job job = make_job(plan_.name + "-evaluation", JobStage::evaluation);
    const std::vector<std::string> tasks = evaluation_tasks();
    if (!options().sweep.empty()) throw UserError("stages: evaluation does not go with --sweep; evaluate the run you choose");
    job.ranks_per_node = plan_.request.target == TargetKind::kubernetes ? 1 : size_.ranks;
    job.has_gpus = uses_gpus(plan_.request.target, settings.trainer.backend);
    const fs::path data = options().data.empty() ? plan_.folder / "data" : fs::absolute(options().data);
    job.command = {program(),
                   "evaluate",
                   (plan_.folder / "results").string(),
                   "--tasks",
                   fmt::format("{}", fmt::join(tasks, ",")),
                   "--data",
                   data.string(),
                   "--output",
                   (plan_.folder / "evaluation" / "scores").string()};
    const int64_t tp = settings.model.tensor_model_parallel_size;
    if (tp > 1 && job.ranks_per_node % tp == 0) job.command.insert(job.command.end(), {"--tensor-parallel", std::to_string(tp)});
    if (trains) job.after = {plan_.name};
    plan_.jobs.push_back(std::move(job));
  }

  void require_checkable(bool trains) const {
    if (plan_.request.target == TargetKind::kubernetes || is_in_pod())
      throw UserError(
          "--validate: Kubernetes chooses the node of each pod and of those that replace it, so a launch cannot leave one out; "
          "keep bad nodes away with --node-selector");
    if (!trains) throw UserError("--validate checks the nodes of a training, and stages has none");
  }

  // On Slurm the nodes are known in the allocation only. This machine is checked by a job before the others.
  void add_checks() {
    if (plan_.request.target == TargetKind::slurm) {
      for (Job& job : plan_.jobs) job.checks_nodes = job.stage == JobStage::training;
      plan_.choices.push_back({"trireme validate --quick first", "--validate; nodes that fail are left out, spares take over"});
      return;
    }
    Job job = make_job(plan_.name + "-validation", JobStage::validation);
    const auto training = std::ranges::find(plan_.jobs, JobStage::training, &Job::stage);
    job.ranks_per_node = size_.ranks;
    job.has_gpus = training->has_gpus;
    const std::string folder = (plan_.folder / name_of(job.stage)).string();
    job.command = {program(), "validate", "--quick", "--results", plan_.folder.string(), "--output", folder};
    for (Job& other : plan_.jobs)
      if (other.after.empty()) other.after = {job.name};
    plan_.jobs.insert(plan_.jobs.begin(), std::move(job));
    plan_.choices.push_back({"trireme validate --quick first", "--validate; nothing is trained if a check fails"});
  }

  LaunchPlan plan_;
  Size size_;
  std::vector<JobStage> stages_;
  std::vector<EnvironmentVariable> environment_;
};

}  // namespace

bool is_in_pod() { return nodes_of_pod().has_value(); }

LaunchPlan plan_launch(LaunchRequest request, const std::string& site_file) {
  return Planner(std::move(request), site_file).plan();
}

}  // namespace trireme

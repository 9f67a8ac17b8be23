// trireme train: runs a training.
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "backend/cuda_module.h"
#include "base/json.h"
#include "base/process.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/recipe_arguments.h"
#include "comm/control.h"
#include "config/runnable.h"
#include "config/settings_printer.h"
#include "config/tree_json.h"
#include "config/yaml.h"
#include "data/open/data_fingerprint.h"
#include "data/open/open_dataset.h"
#include "evaluate/training_tasks.h"
#include "plan/run_plan.h"
#include "plan/usual_cluster.h"
#include "train/fit.h"
#include "train/fit_advice.h"
#include "train/run_size.h"
#include "train/target_plan.h"
#include "train/trainer.h"

namespace trireme {
namespace {

struct TrainArguments {
  RecipeArguments recipe;
  bool resume = false;
  bool changed = false;
  bool dry_run = false;
  bool trace_ops = false;
  bool tune = false;
  bool benchmark = false;
  bool mllog = false;
  bool json = false;
  bool plan = false;
  std::string cluster;
};

// Appends the model's settings under their names in log files: cfg/optim/lr.
void flatten(const Tree& tree, const std::string& path, LoggedParameters& out) {
  if (!tree.is_map()) {
    out.emplace_back(path, scalar_json(tree));
    return;
  }
  for (const Tree::Entry& entry : tree.map()) flatten(entry.value, path + "/" + entry.key, out);
}

// Returns the settings that NeMo's logs call cfg: the model's, and its precision.
Tree model_tree(const Settings& settings) {
  Tree tree = *to_tree(settings).find("model");
  const Precision precision = settings.trainer.precision;
  tree.set("precision", Tree(fmt::format("{}-{}", name_of(precision), precision == Precision::f32 ? "true" : "mixed")));
  return tree;
}

LoggedParameters logged_parameters(const Settings& settings) {
  LoggedParameters parameters;
  flatten(model_tree(settings), "cfg", parameters);
  parameters.emplace_back("trainer/num_nodes", settings.trainer.num_nodes);
  parameters.emplace_back("trainer/devices", settings.trainer.devices);
  return parameters;
}

std::string hparams_text(const Settings& settings) {
  Tree tree;
  tree.set("cfg", model_tree(settings));
  return write_yaml(tree);
}

bool gives(const std::vector<std::string>& overrides, std::string_view key) {
  return std::ranges::any_of(overrides,
                             [&](const std::string& text) { return text.find(fmt::format("{}=", key)) < text.size(); });
}

// Returns the recipe as a benchmark: mock data, no validation, no checkpoints, few steps unless the user gives a number, every
// step logged.
ResolvedRecipe benchmark_of(const TrainArguments& arguments, std::vector<std::string> overrides) {
  if (arguments.resume) throw UserError("--benchmark and --resume do not go together: a benchmark saves nothing to resume from");
  if (gives(arguments.recipe.overrides, "model.data.data_prefix"))
    throw UserError("--benchmark makes its data up and would not read model.data.data_prefix; leave out one of them");
  DataImpl data_impl = DataImpl::mock;
  try {
    const Settings plain = arguments.recipe.resolve(overrides).settings;
    if (plain.model.data.data_impl == DataImpl::mock_legacy) data_impl = plain.model.data.data_impl;
    // Keeps the vocabulary that the recipe's own data would have.
    if (plain.model.vocab_size == 0)
      overrides.push_back(fmt::format("++model.vocab_size={}", default_vocabulary(plain.model.data, plain.model.tokenizer)));
  } catch (const UserError&) {
    // A benchmark does not need the recipe's data. Any other error is found again below.
  }
  for (const char* change : {"++trainer.val_check_interval=null", "++exp_manager.create_checkpoint_callback=false",
                             "++exp_manager.resume_if_exists=false", "++model.data.data_prefix=[]"})
    overrides.emplace_back(change);
  overrides.push_back("++model.data.data_impl=" + name_of(data_impl));
  ResolvedRecipe recipe = arguments.recipe.resolve(std::move(overrides));
  constexpr int64_t kSteps = 50;
  TrainerSettings& trainer = recipe.settings.trainer;
  if (!gives(arguments.recipe.overrides, "trainer.max_steps")) trainer.max_steps = std::min(trainer.max_steps, kSteps);
  if (!gives(arguments.recipe.overrides, "trainer.log_every_n_steps")) trainer.log_every_n_steps = 1;
  return recipe;
}

// If the recipe does not set the number of ranks, returns overrides that use all started ranks; the data-parallel size follows.
std::vector<std::string> overrides_for(const World& world, const TrainArguments& arguments) {
  const auto is_given = [&](const char* key) { return gives(arguments.recipe.overrides, key); };
  if (world.size() == 1 || is_given("trainer.num_nodes") || is_given("trainer.devices")) return {};
  if (arguments.recipe.resolve({}, Validation::by_the_caller).settings.ranks() != 1) return {};
  const int hosts = world.size() % hosts_of(world.control().places()) == 0 ? hosts_of(world.control().places()) : 1;
  return {fmt::format("++trainer.num_nodes={}", hosts), fmt::format("++trainer.devices={}", world.size() / hosts)};
}

ResolvedRecipe recipe_of(const World& world, const TrainArguments& arguments) {
  std::vector<std::string> overrides = overrides_for(world, arguments);
  if (arguments.benchmark) return benchmark_of(arguments, std::move(overrides));
  if (arguments.resume) overrides.emplace_back("++exp_manager.resume_if_exists=true");
  return arguments.recipe.resolve(std::move(overrides));
}

// Returns the command that repeats this run.
std::string command_of(const World& world, const TrainArguments& arguments) {
  return fmt::format("{}trireme train {}{}", world.size() > 1 ? fmt::format("mpirun -n {} ", world.size()) : "",
                     arguments.recipe.text(), arguments.benchmark ? " --benchmark" : "");
}

// Returns the options that change what a rank does, by name.
std::vector<std::pair<std::string, bool>> options_of(const TrainArguments& arguments) {
  return {{"--resume", arguments.resume},       {"--changed", arguments.changed},
          {"--dry-run", arguments.dry_run},     {"--benchmark", arguments.benchmark},
          {"--trace-ops", arguments.trace_ops}, {"--tune", arguments.tune},
          {"--mllog", arguments.mllog},         {"--plan", arguments.plan}};
}

// Returns the rendezvous terms: the timeout, and the facts that must be equal on all ranks. An invalid request has no facts; its
// error is reported once, after the ranks have met.
MeetingTerms terms_of(const TrainArguments& arguments) {
  MeetingTerms terms;
  try {
    Settings settings = arguments.recipe.resolve({}, Validation::by_the_caller).settings;
    terms.timeout = std::chrono::seconds(settings.trainer.longest_rank_wait());
    ModelSettings& model = settings.model;
    if (model.vocab_size == 0) model.vocab_size = default_vocabulary(model.data, model.tokenizer);
    LoggedParameters rows;
    flatten(to_tree(settings), "", rows);
    for (const auto& [path, value] : rows) {
      std::string key = path.substr(1);
      std::ranges::replace(key, '/', '.');
      terms.facts.emplace_back(key, value.is_string() ? value.get<std::string>() : json_text(value, kOneLine));
    }
    for (const auto& [option, is_given] : options_of(arguments))
      terms.facts.emplace_back(option, is_given ? "given" : "not given");
    for (auto& row : data_fingerprint(model.data, model.tokenizer)) terms.facts.push_back(std::move(row));
  } catch (const std::exception&) {
    terms.facts.clear();
  }
  return terms;
}

// Returns the recipe as it would run: checked for training, with all sizes known.
ResolvedRecipe training_recipe(const World& world, const TrainArguments& arguments) {
  ResolvedRecipe recipe = recipe_of(world, arguments);
  recipe.require_training();
  ModelSettings& model = recipe.settings.model;
  if (model.vocab_size == 0) model.vocab_size = default_vocabulary(model.data, model.tokenizer);
  for (IdleKey& key : idle_settings(recipe.settings)) recipe.ignored_keys.push_back(std::move(key));
  return recipe;
}

// The platform to predict for: the one that was named, else one with the GPU that was named, else with the one that is there.
std::string cluster_for(const TrainArguments& arguments, const std::string& device) {
  if (!arguments.cluster.empty()) return arguments.cluster;
  if (!arguments.recipe.gpu.empty()) return usual_cluster(arguments.recipe.gpu_kind().name);
  if (const std::optional<std::string> cluster = usual_cluster_of_device(device)) return *cluster;
  throw UserError("--plan: nothing is known of {}; name a platform or the path of a hardware file with --cluster",
                  device.empty() ? "this CPU" : device);
}

// What `trireme plan` says of a step.
StepPrediction predict_step(const Settings& settings, const std::string& cluster) {
  const PlanRequest request{
      .settings = settings, .platform = load_platform(cluster), .software = load_software_profile("trireme")};
  const StepTime step = step_of(request);
  StepPrediction prediction{.on = fmt::format("{} ({})", request.platform.name, request.platform.gpu.name),
                            .seconds = step.total,
                            .parts = {},
                            .parts_text = parts_text(step)};
  for (const StepPart& part : kStepParts) prediction.parts.emplace_back(part.name, step.*part.seconds);
  return prediction;
}

std::unique_ptr<Trainer> make_trainer(World& world, const TrainArguments& arguments) {
  ResolvedRecipe recipe = training_recipe(world, arguments);
  Settings& settings = recipe.settings;
  Resources there = resources_of(world);
  if (may_use_gpu(settings.trainer.backend)) there.memory = 0;  // the trainer checks the memory of the GPU
  require_fit(settings, there);
  require_runnable(settings, world.size());
  world.set_timeout(std::chrono::seconds(settings.trainer.longest_rank_wait()));
  world.control().set_hangs(settings.trainer.rank_timeout > 0 ? Control::Hangs::ignored : Control::Hangs::found);
  std::function<StepPrediction(const std::string&)> predict;
  if (arguments.plan)
    predict = [&arguments, settings](const std::string& device) {
      return predict_step(settings, cluster_for(arguments, device));
    };
  return std::make_unique<Trainer>(
      RunRequest{.settings = settings,
                 .settings_text = to_yaml(settings),
                 .notices = recipe.notices(arguments.recipe.detail()),
                 .logged_parameters = logged_parameters(settings),
                 .hparams_text = hparams_text(settings),
                 .recipe = arguments.recipe.recipe,
                 .command = command_of(world, arguments),
                 .arguments = command_line(),
                 .trace_ops = arguments.trace_ops ? TraceOps::yes : TraceOps::no,
                 .tune_gemms = arguments.tune ? TuneGemms::yes : TuneGemms::no,
                 .purpose = arguments.benchmark ? RunPurpose::benchmark : RunPurpose::training,
                 .changed_settings = arguments.changed ? ChangedSettings::accepted : ChangedSettings::refused,
                 .mllog = arguments.mllog ? Mllog::yes : Mllog::no,
                 .report_format = arguments.json ? ReportFormat::json : ReportFormat::text,
                 .predict = predict,
                 .make_task_scorer = settings.model.validation_tasks.tasks.empty() ? nullptr : MakeTaskScorer(make_task_scorer)},
      world);
}

// Until the ranks have met, a signal ends only this process. After that all ranks stop together.
World find_world(const TrainArguments& arguments, StopSignal& stop) {
  World world = World::find([&] { return terms_of(arguments); });
  if (world.streams() == nullptr) return world;
  stop.notice();
  world.control().set_watch([&stop]() -> std::optional<JobEnd> {
    if (stop.received() == nullptr) return std::nullopt;
    return JobEnd{.status = kStoppedAfterSaving,
                  .line = fmt::format("{} before the first step: there is nothing to save; start again", stop.received())};
  });
  return world;
}

// Prints the plan for the machine that the recipe targets. Reads neither data nor folders of this machine.
void print_target_plan(const World& world, const TrainArguments& arguments, const std::string& obstacle) {
  const ResolvedRecipe recipe = training_recipe(world, arguments);
  const Settings& settings = recipe.settings;
  const TargetPlan run = plan_for_target(settings, arguments.recipe.gpu_kind());
  const bool fits = run.left() >= 0;
  const std::optional<FitAdvice> advice = fits ? std::nullopt : advise_to_fit(settings, run.gpu);
  std::optional<StepPrediction> prediction;
  if (arguments.plan)
    prediction = predict_step(settings, arguments.cluster.empty() ? usual_cluster(run.gpu.name) : arguments.cluster);
  if (world.rank() != 0) return;
  if (arguments.json) {
    nlohmann::ordered_json json{{"recipe", arguments.recipe.recipe},
                                {"ranks", settings.ranks()},
                                {"memory", json_of(run)},
                                {"here", obstacle.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(obstacle)}};
    if (!fits) json["to_fit"] = json_of(advice);
    if (prediction) json["plan"] = prediction->json(0);
    print_json(json);
    return;
  }
  fmt::print("layout  {}{}\n{}\n", settings.ranks() == 1 ? "" : fmt::format("{} ranks: ", settings.ranks()),
             layout_text(settings), text_of(run, settings));
  if (!fits) fmt::print("{}\n", text_of(advice));
  if (prediction) fmt::print("plan    {}\n", prediction->text());
  for (const std::string& line : recipe.notices(arguments.recipe.detail())) fmt::print("{}\n", line);
  if (!obstacle.empty()) fmt::print("here    {}\n", obstacle);
}

// Prints what a run would do, even if it cannot run here.
void dry_run(World& world, const TrainArguments& arguments, std::unique_ptr<Trainer>& trainer) {
  if (!arguments.recipe.gpu.empty()) return print_target_plan(world, arguments, "");
  if (training_recipe(world, arguments).settings.trainer.backend == BackendKind::cuda && cuda_device_count() == 0)
    return print_target_plan(world, arguments, "trainer.backend=cuda needs a GPU, and there is none");
  try {
    trainer = make_trainer(world, arguments);
  } catch (const DoesNotFit& obstacle) {
    return print_target_plan(world, arguments, obstacle.what());
  }
  trainer->announce();
  if (world.rank() != 0) return;
  const MemoryPlan& plan = trainer->memory_plan();
  const MemoryProfile profile = profile_memory(plan);
  if (!arguments.json) return fmt::print(stderr, "{}\n", text_of(profile));
  nlohmann::ordered_json kinds;
  for (const auto& [label, bytes] : plan.rows()) kinds[label] = bytes;
  print_json(
      nlohmann::ordered_json{{"recipe", arguments.recipe.recipe},
                             {"ranks", world.size()},
                             {"memory", {{"rank", 0}, {"bytes", kinds}, {"total", plan.total()}, {"step", json_of(profile)}}},
                             {"here", nullptr}});
}

int train(const TrainArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe must not end the run
  StopSignal stop({.status = kStoppedAfterSaving, .speaks = rank_in_environment() == 0});
  World world = find_world(arguments, stop);
  std::unique_ptr<Trainer> trainer;
  try {
    if (arguments.dry_run) return dry_run(world, arguments, trainer), kDone;
    trainer = make_trainer(world, arguments);
    return trainer->run(stop) == RunOutcome::stopped_by_signal ? kStoppedAfterSaving : kDone;
  } catch (const std::exception& error) {
    if (world.streams() == nullptr) throw;  // a single process
    world.leave(error);  // the trainer must still exist here: its destructor could wait for ranks that never answer
  }
}

// The options that train and finetune share.
void add_run_options(CLI::App& command, const std::shared_ptr<TrainArguments>& arguments) {
  command.add_flag("--resume", arguments->resume, "continue from the newest checkpoint of the newest run of this recipe");
  command.add_flag("--changed", arguments->changed,
                   "continue although settings that change the mathematics are not those of the checkpoint");
  command.add_flag("--dry-run", arguments->dry_run,
                   "check the recipe and the data, say what would happen and how much memory it takes, and stop");
  command.add_flag("--benchmark", arguments->benchmark,
                   "measure the speed: mock data, no validation, no checkpoints, at most 50 steps unless trainer.max_steps is "
                   "given; ends with a table and benchmark.json");
  CLI::Option* plan = command.add_flag("--plan", arguments->plan,
                                       "say how long a step should take, as trireme plan does, and at the end how long it took");
  command
      .add_option("--cluster", arguments->cluster,
                  "with --plan: the platform to predict for, or the path of a hardware file; else one with the GPU that is there")
      ->needs(plan);
  command.add_flag("--mllog", arguments->mllog, "also write mllog.txt, the log lines of MLPerf");
  command.add_flag("--json", arguments->json, "print the summary at the end as JSON; with --dry-run the memory plan");
  command.add_flag("--trace-ops", arguments->trace_ops,
                   "trace a few steps op by op: ends with a table of where their time went, and a Chrome trace of each rank");
  command.add_flag("--tune", arguments->tune,
                   "on a GPU: compare GEMM algorithms in the steps of this run, and keep the best for later runs; takes some "
                   "hundred micro-batches, which train as always");
}

}  // namespace

void add_train_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train",
                                         "Train a model.\n\n"
                                         "examples:  trireme train demo\n"
                                         "           trireme train demo trainer.max_steps=50 trainer.precision=32\n"
                                         "           trireme train demo --resume\n"
                                         "           trireme train demo --benchmark\n"
                                         "           mpirun -n 4 trireme train demo model.tensor_model_parallel_size=2\n");
  arguments->recipe.add_to(*command);
  command->add_option("--from", arguments->recipe.from,
                      "a run, a checkpoint or a folder of transformers: its architecture and weights, with a new optimizer");
  add_run_options(*command, arguments);
  command->callback([arguments, &status] { status = train(*arguments); });
}

void add_finetune_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<TrainArguments>();
  arguments->recipe.recipe = "_finetune";
  CLI::App* command = app.add_subcommand(
      "finetune",
      "Train a model further on prompts and responses; trireme train RECIPE --from MODEL.\n\n"
      "examples:  trireme finetune runs/demo model.data.data_prefix=[chats.jsonl]\n"
      "           trireme finetune runs/demo model.data.data_prefix=[chats.jsonl] model.peft.peft_scheme=lora\n");
  command->add_option("model", arguments->recipe.from, "a run, a checkpoint or a folder of transformers")->required();
  command->add_option("overrides", arguments->recipe.overrides, "settings as key=value (trireme config --keys lists them)");
  command->add_option("--recipe", arguments->recipe.recipe, "a shipped recipe or the path of a YAML file")->capture_default_str();
  command->add_flag("--verbose", arguments->recipe.verbose, "list the keys of the recipe that have no effect here, by reason");
  add_run_options(*command, arguments);
  command->callback([arguments, &status] { status = train(*arguments); });
}

}  // namespace trireme

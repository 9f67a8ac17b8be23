// trireme plan: predicts the time and memory of a step on a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/plan_commands.h"
#include "config/validate.h"
#include "data/open/open_dataset.h"
#include "plan/calibrate.h"
#include "plan/hardware_change.h"
#include "plan/plan_page.h"
#include "plan/run_plan.h"
#include "plan/sweeps.h"
#include "plan/usual_cluster.h"

namespace trireme {
namespace {

Platform platform_of(const PlanArguments& arguments) {
  Platform platform =
      load_platform(arguments.cluster.empty() ? usual_cluster(arguments.recipe.gpu_kind().name) : arguments.cluster);
  for (const std::string& change : arguments.changes) change_platform(platform, change);
  if (arguments.memory.empty()) return platform;
  const double memory = gib_from_text(arguments.memory, "--memory");
  if (memory > platform.gpu.memory_gib)
    throw UserError("--memory {}: {} has {} GiB; give at most that, or another --cluster", arguments.memory, platform.gpu.name,
                    platform.gpu.memory_gib);
  platform.gpu.memory_gib = memory;
  return platform;
}

void print_plan(const PlanArguments& arguments) {
  const std::vector<int64_t> nodes = node_counts(arguments);
  if (nodes.size() > 1) throw UserError("--nodes {}: several numbers of nodes need --search", arguments.nodes);
  const PlanRequest request = request_of(arguments, nodes.front());
  validate(request.settings);
  const RunPlan plan = plan_run(request);
  if (!arguments.trace.empty()) {
    const std::string trace = json_text(chrome_trace(request), kOneLine);
    atomic_write(arguments.trace, std::as_bytes(std::span(trace)));
  }
  if (!arguments.html.empty()) {
    const std::string page = plan_page(plan, arguments.recipe.recipe);
    atomic_write(arguments.html, std::as_bytes(std::span(page)));
  }
  if (arguments.json)
    print_json(json_of(plan, arguments.recipe.recipe));
  else
    fmt::print("{}", text_of(plan, arguments.recipe.recipe));
}

void print_evaluation(const PlanArguments& arguments) {
  const PlannerConstants constants = PlannerConstants::shipped();
  const std::vector<PreparedRun> runs = prepare_runs(arguments.evaluate, profiles_of(constants));
  Evaluation evaluation = evaluate(runs, [&](const PreparedRun& run) { return constants.predict(run); });
  plan_memory_of(evaluation, constants);
  const std::vector<Sweep> sweeps = sweeps_of(evaluation);
  if (!arguments.json) return fmt::print("{}{}{}", text_of(evaluation), sweeps.empty() ? "" : "\n", text_of(sweeps));
  nlohmann::ordered_json json = json_of(evaluation);
  json["sweeps"] = json_of(sweeps);
  print_json(json);
}

void print_calibration(const PlanArguments& arguments) {
  PlannerConstants constants = PlannerConstants::shipped();
  const std::vector<PreparedRun> runs = prepare_runs(arguments.calibrate, profiles_of(constants));
  const Calibration calibration = calibrate(runs, std::move(constants), arguments.rounds);
  if (!arguments.output.empty()) write_constants(calibration, arguments.output);
  fmt::print("{}", report_of(calibration));
}

// Options that only another one gives a meaning.
void require_use(const PlanArguments& arguments) {
  if (!arguments.output.empty() && !arguments.search && arguments.days == 0 && arguments.calibrate.empty() && !arguments.measure)
    throw UserError("--output {} needs --search, --days, --measure or --calibrate", arguments.output);
  if (!arguments.search && arguments.days == 0 && !arguments.vary.empty()) throw UserError("--vary needs --search or --days");
  if (arguments.days > 0 && arguments.names_recipe)
    throw UserError("--days {:g} chooses among the GPT-3 sizes: leave out {}, or plan it with --target-days", arguments.days,
                    arguments.recipe.recipe);
  if (!arguments.search && arguments.target_days > 0) throw UserError("--target-days {:g} needs --search", arguments.target_days);
}

void add_options(CLI::App& command, PlanArguments& arguments) {
  arguments.recipe.add_to(command);
  command.add_option("--cluster", arguments.cluster,
                     "a shipped platform, such as a3-mega or dgx-h100, or the path of a YAML file like those in hardware; if not "
                     "given, one with the GPU in the recipe's name");
  command.add_option("--nodes", arguments.nodes,
                     "nodes of the cluster; if not given, the recipe's; with --search also several, such as 8,16,...,128");
  command.add_option("--memory", arguments.memory, "use only so much memory of each GPU, such as 70GB or 64GiB");
  command
      .add_option("--set", arguments.changes,
                  "change a value of the cluster's or the GPU's file, such as network_bandwidth=2x or oversubscription=1; can be "
                  "given several times")
      ->allow_extra_args(false);
  command
      .add_option("--profile", arguments.profile, "the software that runs, one of profiles or the path of a YAML file like them")
      ->capture_default_str();
  command.add_option("--tokens", arguments.tokens, "tokens to train on, such as 300B: print days and GPU-hours");
  command.add_option("--price", arguments.price, "price of a GPU-hour: print the cost")->check(CLI::NonNegativeNumber);
  command.add_option("--trace", arguments.trace, "write the timeline of every pipeline stage to a file for Perfetto");
  command.add_option("--html", arguments.html,
                     "write a page with the timeline of every stage, where the time goes, and the memory");
  command.add_flag("--search", arguments.search, "time all layouts and print the fastest that fit");
  command
      .add_option("--vary", arguments.vary,
                  "what else --search tries: fp8 (with and without), sharding (of the optimizer's state)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"fp8", "sharding"}));
  command
      .add_option("--target-days", arguments.target_days,
                  "with --search and --tokens: the fewest GPUs that take at most so many days")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--days", arguments.days,
                  "without a recipe, with --nodes and --tokens: the largest GPT-3 model that is trained in so many days")
      ->check(CLI::PositiveNumber);
  command.add_option("--best", arguments.best, "how many layouts --search prints: 5, or 1 for each of several --nodes")
      ->check(CLI::Range(1, 1000));
  CLI::Option* scale =
      command
          .add_option("--scale", arguments.scale,
                      "numbers of GPUs, such as 8,16,24 or 8,...,1024, where ... doubles: print how the speed grows with them")
          ->excludes("--nodes")
          ->excludes("--search");
  command.add_option("--svg", arguments.svg, "write the curves of --scale as a picture")->needs(scale);
  CLI::Option* measure = command.add_flag(
      "--measure", arguments.measure,
      "measure this machine in some minutes, also under mpirun, and write it to --output for --cluster: ops in training steps of "
      "small models, collectives");
  command.add_option("--threads", arguments.threads, "of --measure: CPU threads of a rank; else its share of the cores")
      ->check(CLI::Range(1, 4096))
      ->needs(measure);
  command.add_flag("--cpu", arguments.cpu, "of --measure: the CPU, although there is a GPU")->needs(measure);
  command.add_flag("--quick", arguments.quick, "of --measure: in seconds, from a few small models; good for a look only")
      ->needs(measure);
  command.add_option("--evaluate", arguments.evaluate, "a CSV file of measured runs: print how far the predictions are off");
  command.add_option("--calibrate", arguments.calibrate, "a CSV file of measured runs: fit the planner's constants to it");
  command.add_option("--rounds", arguments.rounds, "rounds of the fit over profiles and GPUs")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command.add_option(
      "--output", arguments.output,
      "of --search and --days: the recipe file of the winner; of --measure: the hardware file; of --calibrate: a folder for "
      "profiles and GPUs");
  command.add_flag("--json", arguments.json, "print JSON");
}

}  // namespace

PlanRequest request_of(const PlanArguments& arguments, int64_t nodes) {
  PlanRequest request;
  request.platform = platform_of(arguments);
  request.software = load_software_profile(arguments.profile);
  std::vector<std::string> overrides;
  if (nodes > 0)
    overrides = {fmt::format("trainer.num_nodes={}", nodes),
                 fmt::format("trainer.devices={:.0f}", request.platform.gpus_per_node)};
  Settings& settings = request.settings;
  settings = arguments.recipe.resolve(overrides, Validation::by_the_caller).settings;
  ModelSettings& model = settings.model;
  if (model.vocab_size == 0) model.vocab_size = default_vocabulary(model.data, model.tokenizer);
  if (!arguments.tokens.empty()) request.tokens = count_from_text(arguments.tokens, "--tokens");
  request.price_per_gpu_hour = arguments.price;
  return request;
}

std::vector<int64_t> node_counts(const PlanArguments& arguments) {
  return arguments.nodes.empty() ? std::vector<int64_t>{0} : counts_from_text(arguments.nodes, "--nodes");
}

void require_own_file(const std::string& path) {
  constexpr int64_t kMostBytes = int64_t{1} << 24;
  if (std::filesystem::exists(path) && !read_file(path, kMostBytes).starts_with(kWrittenByPlan))
    throw UserError("--output {}: exists and is not from trireme plan; give another name", path);
}

void add_plan_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan",
                         "Predict the memory and time of a step on a cluster, before asking for a node.\n\n"
                         "examples:  trireme plan gpt3/126m\n"
                         "           trireme plan gpt3/5b --cluster a3-mega --nodes 32 --tokens 300B\n"
                         "           trireme plan gpt3/175b --html plan.html\n"
                         "           trireme plan gpt3/5b --cluster dgx-a100 --nodes 8 --search\n"
                         "           trireme plan gpt3/20b --search --tokens 300B --target-days 30 --output best.yaml\n"
                         "           trireme plan --cluster dgx-h100 --nodes 32 --tokens 300B --days 10\n"
                         "           trireme plan gpt3/5b --cluster dgx-h100 --scale 8,...,1024 --svg scaling.svg\n"
                         "           trireme plan --measure --output this-machine.yaml\n");
  add_options(*command, *arguments);
  // Pictures of one plan, where there are several or none.
  for (const char* picture : {"--trace", "--html"})
    for (const char* several : {"--search", "--days", "--scale", "--measure", "--evaluate", "--calibrate"})
      command->get_option(picture)->excludes(several);
  command->callback([arguments, command, &status] {
    arguments->names_recipe = command->count("recipe") > 0;
    require_use(*arguments);
    if (arguments->measure)
      measure_this_machine(*arguments);
    else if (!arguments->evaluate.empty())
      print_evaluation(*arguments);
    else if (!arguments->calibrate.empty())
      print_calibration(*arguments);
    else if (!arguments->scale.empty())
      print_scaling(*arguments);
    else if (arguments->days > 0)
      print_budget(*arguments);
    else if (arguments->search)
      print_search(*arguments);
    else
      print_plan(*arguments);
    status = kDone;
  });
}

}  // namespace trireme

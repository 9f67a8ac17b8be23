// trireme plan: predicts the time and memory of a step on a cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/recipe_arguments.h"
#include "config/validate.h"
#include "data/open/open_dataset.h"
#include "plan/calibrate.h"
#include "plan/layout_search.h"
#include "plan/layout_table.h"
#include "plan/plan_page.h"
#include "plan/run_plan.h"
#include "plan/scaling_chart.h"

namespace trireme {
namespace {

struct PlanArguments {
  RecipeArguments recipe;
  std::string cluster, profile = "trireme";
  int64_t nodes = 0;
  std::string tokens, trace, html;
  double price = 0;
  bool search = false;
  size_t best = 5;
  std::string scale, svg;
  std::string evaluate, calibrate, output;
  int rounds = 6;
  bool json = false;
};

// The platform of the GPU in the recipe's name.
std::string usual_cluster(const RecipeArguments& recipe) {
  const std::string gpu(recipe.gpu_kind().name);
  for (const char* name : {"dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72", "dgx-a100", "aws-p4d"})
    if (load_platform(name).gpu.name == gpu) return name;
  throw UserError("--cluster is missing: no shipped cluster has the GPU {} of the recipe", gpu);
}

PlanRequest request_of(const PlanArguments& arguments) {
  PlanRequest request;
  request.platform = load_platform(arguments.cluster.empty() ? usual_cluster(arguments.recipe) : arguments.cluster);
  request.software = load_software_profile(arguments.profile);
  std::vector<std::string> overrides;
  if (arguments.nodes > 0)
    overrides = {fmt::format("trainer.num_nodes={}", arguments.nodes),
                 fmt::format("trainer.devices={:.0f}", request.platform.gpus_per_node)};
  Settings& settings = request.settings;
  settings = arguments.recipe.resolve(overrides, Validation::by_the_caller).settings;
  ModelSettings& model = settings.model;
  if (model.vocab_size == 0) model.vocab_size = default_vocabulary(model.data, model.tokenizer);
  if (!arguments.tokens.empty()) request.tokens = count_from_text(arguments.tokens, "--tokens");
  request.price_per_gpu_hour = arguments.price;
  return request;
}

void print_plan(const PlanArguments& arguments) {
  const PlanRequest request = request_of(arguments);
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

void print_search(const PlanArguments& arguments) {
  const PlanRequest request = request_of(arguments);
  validate_recipe(request.settings);
  const LayoutSearch search = search_layouts(request, {.count = arguments.best});
  if (search.best.empty())
    throw UserError("no layout of {} fits {} of {}; use more --nodes, a smaller model, or --cluster with more memory",
                    arguments.recipe.recipe, plural(request.settings.ranks(), "GPU"), request.platform.name);
  if (arguments.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const RunPlan& plan : search.best) {
      rows.push_back(layout_json(plan));
      rows.back()["overrides"] = overrides_of(plan.request.settings, request.settings);
    }
    print_json(nlohmann::ordered_json{{"tried", search.tried}, {"too_large", search.too_large}, {"best", rows}});
    return;
  }
  fmt::print("{} timed on {} of {}; {} faster ones do not fit\n{}\n", plural(search.tried, "layout"),
             plural(request.settings.ranks(), "GPU"), request.platform.name, search.too_large, layout_head(request));
  for (const RunPlan& plan : search.best) fmt::print("{}\n", layout_row(plan));
  std::string command = fmt::format("trireme plan {} --cluster {} --nodes {}", arguments.recipe.text(), request.platform.name,
                                    request.settings.trainer.num_nodes);
  for (const std::string& change : overrides_of(search.best.front().request.settings, request.settings)) command += " " + change;
  fmt::print("\nthe first: {}\n", command);
}

void print_scaling(const PlanArguments& arguments) {
  const PlanRequest request = request_of(arguments);
  validate_recipe(request.settings);
  const ScalingCurves curves = scaling_curves(request, counts_from_text(arguments.scale, "--scale"));
  const std::string& recipe = arguments.recipe.recipe;
  if (!arguments.svg.empty()) atomic_write(arguments.svg, bytes_of(scaling_svg(curves, recipe)));
  if (arguments.json)
    print_json(json_of(curves, recipe));
  else
    fmt::print("{}", text_of(curves, recipe));
}

void print_evaluation(const PlanArguments& arguments) {
  const PlannerConstants constants = PlannerConstants::shipped();
  const std::vector<PreparedRun> runs = prepare_runs(arguments.evaluate, profiles_of(constants));
  const Evaluation evaluation = evaluate(runs, [&](const PreparedRun& run) { return constants.predict(run); });
  if (arguments.json)
    print_json(json_of(evaluation));
  else
    fmt::print("{}", text_of(evaluation));
}

void print_calibration(const PlanArguments& arguments) {
  PlannerConstants constants = PlannerConstants::shipped();
  const std::vector<PreparedRun> runs = prepare_runs(arguments.calibrate, profiles_of(constants));
  const Calibration calibration = calibrate(runs, std::move(constants), arguments.rounds);
  if (!arguments.output.empty()) write_constants(calibration, arguments.output);
  fmt::print("{}", report_of(calibration));
}

void add_options(CLI::App& command, PlanArguments& arguments) {
  arguments.recipe.add_to(command);
  command.add_option("--cluster", arguments.cluster,
                     "a shipped platform, such as a3-mega or dgx-h100, or the path of a YAML file like those in hardware; if not "
                     "given, one with the GPU in the recipe's name");
  command.add_option("--nodes", arguments.nodes, "nodes of the cluster; if not given, the recipe's")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command
      .add_option("--profile", arguments.profile, "the software that runs, one of profiles or the path of a YAML file like them")
      ->capture_default_str();
  command.add_option("--tokens", arguments.tokens, "tokens to train on, such as 300B: print days and GPU-hours");
  command.add_option("--price", arguments.price, "price of a GPU-hour: print the cost")->check(CLI::NonNegativeNumber);
  command.add_option("--trace", arguments.trace, "write the timeline of every pipeline stage to a file for Perfetto");
  command.add_option("--html", arguments.html,
                     "write a page with the timeline of every stage, where the time goes, and the memory");
  command.add_flag("--search", arguments.search, "time all layouts and print the fastest that fit");
  command.add_option("--best", arguments.best, "how many layouts --search prints")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI::Option* scale =
      command
          .add_option("--scale", arguments.scale,
                      "numbers of GPUs, such as 8,16,24 or 8,...,1024, where ... doubles: print how the speed grows with them")
          ->excludes("--nodes");
  command.add_option("--svg", arguments.svg, "write the curves of --scale as a picture")->needs(scale);
  command.add_option("--evaluate", arguments.evaluate, "a CSV file of measured runs: print how far the predictions are off");
  command.add_option("--calibrate", arguments.calibrate, "a CSV file of measured runs: fit the planner's constants to it");
  command.add_option("--rounds", arguments.rounds, "rounds of the fit over profiles and GPUs")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command.add_option("--output", arguments.output, "folder for the profiles and GPUs with fitted constants");
  command.add_flag("--json", arguments.json, "print JSON");
}

}  // namespace

void add_plan_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan",
                         "Predict the memory and time of a step on a cluster, before asking for a node.\n\n"
                         "examples:  trireme plan gpt3/126m\n"
                         "           trireme plan gpt3/5b --cluster a3-mega --nodes 32 --tokens 300B\n"
                         "           trireme plan gpt3/175b --html plan.html\n"
                         "           trireme plan gpt3/5b --cluster dgx-a100 --nodes 8 --search\n"
                         "           trireme plan gpt3/5b --cluster dgx-h100 --scale 8,...,1024 --svg scaling.svg\n");
  add_options(*command, *arguments);
  command->callback([arguments, &status] {
    if (!arguments->evaluate.empty())
      print_evaluation(*arguments);
    else if (!arguments->calibrate.empty())
      print_calibration(*arguments);
    else if (!arguments->scale.empty())
      print_scaling(*arguments);
    else if (arguments->search)
      print_search(*arguments);
    else
      print_plan(*arguments);
    status = kDone;
  });
}

}  // namespace trireme

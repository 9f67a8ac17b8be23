// trireme plan: predicts the time and memory of a step on a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/recipe_arguments.h"
#include "config/validate.h"
#include "config/yaml.h"
#include "data/open/open_dataset.h"
#include "plan/calibrate.h"
#include "plan/hardware_change.h"
#include "plan/layout_search.h"
#include "plan/layout_table.h"
#include "plan/plan_page.h"
#include "plan/run_plan.h"
#include "plan/scaling_chart.h"
#include "plan/usual_cluster.h"

namespace trireme {
namespace {

struct PlanArguments {
  RecipeArguments recipe;
  std::string cluster, profile = "trireme";
  std::string nodes, memory;
  std::vector<std::string> changes;  // of the platform
  std::string tokens, trace, html;
  double price = 0, target_days = 0;
  bool search = false;
  std::vector<std::string> vary;
  size_t best = 0;  // 0: not given
  std::string scale, svg;
  std::string evaluate, calibrate, output;
  int rounds = 6;
  bool json = false;
};

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

// 0 nodes: as many as the recipe has.
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

struct NodeSearch {
  PlanRequest request;
  LayoutSearch found;
};

// 1, 2, 3, 4, 6, 8, 12, ...: for a target, if the user gives none.
std::vector<int64_t> usual_node_counts() {
  std::vector<int64_t> counts{1};
  for (int64_t nodes = 2; nodes <= 2048; nodes *= 2) counts.insert(counts.end(), {nodes, nodes / 2 * 3});
  return counts;
}

// Up to the first number of nodes that reaches the target, if there is one.
std::vector<NodeSearch> search_nodes(const PlanArguments& arguments) {
  const bool has_target = arguments.target_days > 0;
  const std::vector<int64_t> counts = has_target && arguments.nodes.empty() ? usual_node_counts() : node_counts(arguments);
  const size_t usual_best = counts.size() > 1 ? 1 : 5;
  const auto varies = [&](const char* what) { return std::ranges::find(arguments.vary, what) != arguments.vary.end(); };
  const SearchOptions options{.count = arguments.best > 0 ? arguments.best : usual_best,
                              .varies_fp8 = varies("fp8"),
                              .varies_shards = varies("sharding")};
  std::vector<NodeSearch> searches;
  for (const int64_t nodes : counts) {
    PlanRequest request = request_of(arguments, nodes);
    validate_recipe(request.settings);
    if (has_target && nodes != counts.back() && least_days(request, options) > arguments.target_days) continue;
    LayoutSearch found = search_layouts(request, options);
    const bool reaches = has_target && !found.best.empty() && found.best.front().days() <= arguments.target_days;
    searches.push_back({std::move(request), std::move(found)});
    if (reaches) break;
  }
  return searches;
}

const NodeSearch& winner_of(const std::vector<NodeSearch>& searches, const PlanArguments& arguments) {
  const NodeSearch* winner = nullptr;
  for (const NodeSearch& search : searches) {
    if (search.found.best.empty()) continue;
    const double speed = search.found.best.front().tokens_per_second();
    if (winner == nullptr || speed > winner->found.best.front().tokens_per_second()) winner = &search;
  }
  const PlanRequest& largest = searches.back().request;
  if (winner == nullptr)
    throw UserError("no layout of {} fits {} of {}; use more --nodes, a smaller model, or --cluster with more memory",
                    arguments.recipe.recipe, plural(largest.settings.ranks(), "GPU"), largest.platform.name);
  if (arguments.target_days == 0) return *winner;
  const RunPlan& last = winner->found.best.front();
  if (last.days() > arguments.target_days)
    throw UserError("--target-days {:g}: not reached, {} take {:.1f} days; use more --nodes or a faster --cluster",
                    arguments.target_days, plural(last.request.settings.ranks(), "GPU"), last.days());
  return searches.back();
}

constexpr std::string_view kWritten = "# Written by trireme plan: ";

// The recipe with the layout, complete: it needs no other file. Replaces only a file that this wrote.
void write_recipe(const PlanArguments& arguments, const RunPlan& plan) {
  constexpr int64_t kMostBytes = int64_t{1} << 24;
  const std::string& path = arguments.output;
  if (std::filesystem::exists(path) && !read_file(path, kMostBytes).starts_with(kWritten))
    throw UserError("--output {}: exists and is not from trireme plan; give another name", path);
  const Settings recipe = arguments.recipe.resolve({}, Validation::by_the_caller).settings;
  ResolvedRecipe best = arguments.recipe.resolve(overrides_of(plan.request.settings, recipe));
  for (const char* key : {"batch_size", "micro_batch_size"}) best.tree.remove(key);  // LitGPT's; the model's own say the same
  best.tree.set("model.global_batch_size", Tree(plan.request.settings.model.global_batch_size));
  best.tree.set("model.micro_batch_size", Tree(plan.request.settings.model.micro_batch_size));
  const std::string text = fmt::format("{}{} on {} of {}, {} per step\n{}", kWritten, arguments.recipe.recipe,
                                       plural(plan.request.settings.ranks(), "GPU"), plan.request.platform.name,
                                       format_seconds(plan.step.total), write_yaml(best.tree));
  atomic_write(path, bytes_of(text));
}

nlohmann::ordered_json json_of(const std::vector<NodeSearch>& searches) {
  int64_t tried = 0, too_large = 0;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const NodeSearch& search : searches) {
    tried += search.found.tried, too_large += search.found.too_large;
    for (const RunPlan& plan : search.found.best) {
      rows.push_back(layout_json(plan));
      rows.back()["overrides"] = overrides_of(plan.request.settings, search.request.settings);
    }
  }
  return {{"tried", tried}, {"too_large", too_large}, {"best", rows}};
}

std::string text_of(const std::vector<NodeSearch>& searches) {
  std::string text;
  for (const NodeSearch& search : searches) {
    text += fmt::format("{} timed on {} of {}; {} faster do not fit\n", plural(search.found.tried, "layout"),
                        plural(search.request.settings.ranks(), "GPU"), search.request.platform.name, search.found.too_large);
  }
  text += layout_head(searches.front().request) + "\n";
  for (const NodeSearch& search : searches)
    for (const RunPlan& plan : search.found.best) text += layout_row(plan) + "\n";
  return text;
}

void print_search(const PlanArguments& arguments) {
  if (arguments.target_days > 0 && arguments.tokens.empty())
    throw UserError("--target-days {:g} needs --tokens, such as --tokens 300B", arguments.target_days);
  const std::vector<NodeSearch> searches = search_nodes(arguments);
  const NodeSearch& winner = winner_of(searches, arguments);
  const RunPlan& plan = winner.found.best.front();
  if (!arguments.output.empty()) write_recipe(arguments, plan);
  const std::vector<std::string> overrides = overrides_of(plan.request.settings, winner.request.settings);
  if (arguments.json) {
    nlohmann::ordered_json json = json_of(searches);
    json["winner"] = layout_json(plan);
    json["winner"]["overrides"] = overrides;
    print_json(json);
    return;
  }
  std::string command = fmt::format("trireme plan {} --cluster {} --nodes {}", arguments.recipe.text(),
                                    arguments.cluster.empty() ? plan.request.platform.name : arguments.cluster,
                                    plan.request.settings.trainer.num_nodes);
  for (const std::string& change : arguments.changes) command += " --set " + change;
  for (const std::string& change : overrides) command += " " + change;
  fmt::print("{}\n{}: {}\n", text_of(searches), arguments.target_days > 0 ? "the fewest GPUs" : "the fastest", command);
}

void print_scaling(const PlanArguments& arguments) {
  const PlanRequest request = request_of(arguments, 0);
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

// Options that only another one gives a meaning.
void require_use(const PlanArguments& arguments) {
  if (!arguments.output.empty() && !arguments.search && arguments.calibrate.empty())
    throw UserError("--output {} needs --search or --calibrate", arguments.output);
  if (!arguments.search && !arguments.vary.empty()) throw UserError("--vary needs --search");
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
  command.add_option("--best", arguments.best, "how many layouts --search prints: 5, or 1 for each of several --nodes")
      ->check(CLI::Range(1, 1000));
  CLI::Option* scale =
      command
          .add_option("--scale", arguments.scale,
                      "numbers of GPUs, such as 8,16,24 or 8,...,1024, where ... doubles: print how the speed grows with them")
          ->excludes("--nodes")
          ->excludes("--search");
  command.add_option("--svg", arguments.svg, "write the curves of --scale as a picture")->needs(scale);
  command.add_option("--evaluate", arguments.evaluate, "a CSV file of measured runs: print how far the predictions are off");
  command.add_option("--calibrate", arguments.calibrate, "a CSV file of measured runs: fit the planner's constants to it");
  command.add_option("--rounds", arguments.rounds, "rounds of the fit over profiles and GPUs")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command.add_option("--output", arguments.output,
                     "of --search: the recipe file of the winner; of --calibrate: a folder for profiles and GPUs");
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
                         "           trireme plan gpt3/20b --search --tokens 300B --target-days 30 --output best.yaml\n"
                         "           trireme plan gpt3/5b --cluster dgx-h100 --scale 8,...,1024 --svg scaling.svg\n");
  add_options(*command, *arguments);
  // Pictures of one plan, where there are several or none.
  for (const char* picture : {"--trace", "--html"})
    for (const char* several : {"--search", "--scale", "--evaluate", "--calibrate"})
      command->get_option(picture)->excludes(several);
  command->callback([arguments, &status] {
    require_use(*arguments);
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

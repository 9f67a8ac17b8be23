// trireme plan --search, --days and --scale: which layouts, models and numbers of GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/plan_commands.h"
#include "config/validate.h"
#include "config/yaml.h"
#include "plan/layout_search.h"
#include "plan/layout_table.h"
#include "plan/model_sizes.h"
#include "plan/scaling_chart.h"
#include "train/run_size.h"

namespace trireme {
namespace {

SearchOptions search_options(const PlanArguments& arguments, size_t usual_best) {
  const auto varies = [&](const char* what) { return std::ranges::find(arguments.vary, what) != arguments.vary.end(); };
  return {.count = arguments.best > 0 ? arguments.best : usual_best,
          .varies_fp8 = varies("fp8"),
          .varies_shards = varies("sharding")};
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
  const SearchOptions options = search_options(arguments, usual_best);
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

// The recipe with the layout, complete: it needs no other file.
void write_recipe(const PlanArguments& arguments, const RunPlan& plan) {
  const std::string& path = arguments.output;
  require_own_file(path);
  const Settings recipe = arguments.recipe.resolve({}, Validation::by_the_caller).settings;
  ResolvedRecipe best = arguments.recipe.resolve(overrides_of(plan.request.settings, recipe));
  for (const char* key : {"batch_size", "micro_batch_size"}) best.tree.remove(key);  // LitGPT's; the model's own say the same
  best.tree.set("model.global_batch_size", Tree(plan.request.settings.model.global_batch_size));
  best.tree.set("model.micro_batch_size", Tree(plan.request.settings.model.micro_batch_size));
  const std::string text = fmt::format("{}{} on {} of {}, {} per step\n{}", kWrittenByPlan, arguments.recipe.recipe,
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

std::string command_of(const PlanArguments& arguments, const RunPlan& plan, const std::vector<std::string>& overrides) {
  std::string command = fmt::format("trireme plan {} --cluster {} --nodes {}", arguments.recipe.text(),
                                    arguments.cluster.empty() ? plan.request.platform.name : arguments.cluster,
                                    plan.request.settings.trainer.num_nodes);
  for (const std::string& change : arguments.changes) command += " --set " + change;
  for (const std::string& change : overrides) command += " " + change;
  return command;
}

// The arguments as if the user had named that model.
PlanArguments arguments_for(const PlanArguments& arguments, const ModelSize& size) {
  PlanArguments sized = arguments;
  sized.recipe.recipe = size.recipe;
  sized.recipe.overrides = size.overrides;
  return sized;
}

nlohmann::ordered_json json_of(const BudgetPlan& plan) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SizedPlan& one : plan.sizes) {
    rows.push_back({{"size", one.size->name}, {"parameters", one.parameters}, {"least_days", one.least_days}});
    rows.back()["best"] = one.best ? layout_json(*one.best) : nlohmann::ordered_json(nullptr);
  }
  return rows;
}

std::string text_of(const BudgetPlan& plan, const PlanArguments& arguments, const PlanRequest& request) {
  const auto gpus = static_cast<double>(request.settings.ranks());
  std::string text =
      fmt::format("budget  {:g} days on {} of {}, {} tokens; the NeMo auto-configurator would take {} parameters\n",
                  arguments.days, plural(request.settings.ranks(), "GPU"), request.platform.name, format_count(request.tokens),
                  format_count(reference_size(arguments.days, gpus, request.tokens)));
  text +=
      fmt::format("{:>6} {:>10} {:>12} {:>8}  {}\n", "size", "parameters", "days at peak", "days", "fastest layout that fits");
  for (const SizedPlan& one : plan.sizes) {
    const std::string days = one.best ? fmt::format("{:.1f}", one.best->days()) : "-";
    const std::string layout = !one.best ? ""
                                         : fmt::format("{}, micro-batch {}", layout_text(one.best->request.settings),
                                                       one.best->request.settings.model.micro_batch_size);
    text += fmt::format("{:>6} {:>10} {:>12.1f} {:>8}  {}{}\n", one.size->name, format_count(one.parameters), one.least_days,
                        days, layout, &one == plan.winner ? "  <- the largest in time" : "");
  }
  return text;
}

}  // namespace

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
  const std::string command = command_of(arguments, plan, overrides);
  fmt::print("{}\n{}: {}\n", text_of(searches), arguments.target_days > 0 ? "the fewest GPUs" : "the fastest", command);
}

void print_budget(const PlanArguments& arguments) {
  if (arguments.tokens.empty()) throw UserError("--days {:g} needs --tokens, such as --tokens 300B", arguments.days);
  if (arguments.nodes.empty()) throw UserError("--days {:g} needs --nodes, such as --nodes 32", arguments.days);
  const std::vector<int64_t> nodes = node_counts(arguments);
  if (nodes.size() > 1) throw UserError("--nodes {}: with --days, give one number of nodes", arguments.nodes);
  const auto request_for = [&](const ModelSize& size) {
    PlanRequest request = request_of(arguments_for(arguments, size), nodes.front());
    request.settings = on_one_rank(request.settings);
    validate_recipe(request.settings);
    return request;
  };
  const BudgetPlan plan = plan_budget(arguments.days, search_options(arguments, 1), request_for);
  if (plan.winner == nullptr)
    throw UserError(
        "--days {:g}: no GPT-3 size is trained on {} tokens in that time; give more --days or --nodes, or fewer --tokens",
        arguments.days, arguments.tokens);
  if (!arguments.json) fmt::print("{}", text_of(plan, arguments, plan.winner->best->request));
  const PlanArguments sized = arguments_for(arguments, *plan.winner->size);
  const RunPlan& best = *plan.winner->best;
  const std::vector<std::string> overrides = overrides_of(best.request.settings, request_of(sized, nodes.front()).settings);
  if (!arguments.output.empty()) write_recipe(sized, best);
  if (!arguments.json) return fmt::print("\nthe largest: {}\n", command_of(sized, best, overrides));
  nlohmann::ordered_json json = {{"sizes", json_of(plan)}, {"winner", layout_json(best)}};
  json["winner"]["size"] = plan.winner->size->name;
  json["winner"]["recipe"] = plan.winner->size->recipe;
  std::vector<std::string> all = plan.winner->size->overrides;
  all.insert(all.end(), overrides.begin(), overrides.end());
  json["winner"]["overrides"] = all;
  print_json(json);
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

}  // namespace trireme

// The parts of trireme plan.
#pragma once

#include <string>
#include <vector>

#include "cli/recipe_arguments.h"
#include "plan/run_plan.h"

namespace trireme {

struct PlanArguments {
  RecipeArguments recipe;
  bool names_recipe = false;  // the user did
  std::string cluster, profile = "trireme";
  std::string nodes, memory;
  std::vector<std::string> changes;  // of the platform
  std::string tokens, trace, html;
  double price = 0, target_days = 0, days = 0;
  bool search = false;
  std::vector<std::string> vary;
  size_t best = 0;  // 0: not given
  std::string scale, svg;
  std::string evaluate, calibrate, output;
  int rounds = 6;
  bool json = false;
  // Of --measure.
  bool measure = false, quick = false, cpu = false;
  int64_t threads = 0;
};

// With 0 nodes, the recipe's ranks.
PlanRequest request_of(const PlanArguments& arguments, int64_t nodes);
std::vector<int64_t> node_counts(const PlanArguments& arguments);

// The first line of the files that this command writes.
inline constexpr std::string_view kWrittenByPlan = "# Written by trireme plan: ";
void require_own_file(const std::string& path);  // only such a file may be replaced

void print_search(const PlanArguments& arguments);
void print_budget(const PlanArguments& arguments);
void print_scaling(const PlanArguments& arguments);
void measure_this_machine(const PlanArguments& arguments);

}  // namespace trireme

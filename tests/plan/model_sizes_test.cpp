// The GPT-3 models that a budget can train.
#include "plan/model_sizes.h"

#include <gtest/gtest.h>

#include <map>

#include "config/recipe.h"
#include "config/validate.h"
#include "train/run_size.h"

namespace trireme {
namespace {

PlanRequest request_for(const ModelSize& size, int64_t nodes) {
  std::vector<std::string> overrides = size.overrides;
  overrides.push_back("trainer.num_nodes=" + std::to_string(nodes));
  overrides.emplace_back("trainer.devices=8");
  return {.settings = on_one_rank(resolve_recipe(size.recipe, overrides, Validation::by_the_caller).settings),
          .platform = load_platform("dgx-h100"),
          .software = load_software_profile("trireme"),
          .tokens = 300e9};
}

TEST(ModelSizesTest, HaveTheParametersOfTheirNames) {
  double before = 0;
  for (const ModelSize& size : gpt3_sizes()) {
    const PlanRequest request = request_for(size, 1);
    validate_recipe(request.settings);
    const auto parameters = static_cast<double>(run_size(request.settings).parameters);
    EXPECT_GT(parameters, before) << size.name;
    const std::map<char, double> units{{'m', 1e6}, {'b', 1e9}, {'t', 1e12}};
    const double named = std::stod(size.name) * units.at(size.name.back());
    EXPECT_NEAR(parameters / named, 1, 0.12) << size.name;  // 5b has 5.2 billion, 400m has 355 million
    before = parameters;
  }
}

TEST(ModelSizesTest, TheLargestThatIsTrainedInTimeWins) {
  const auto largest = [](double days, int64_t nodes) {
    const BudgetPlan plan = plan_budget(days, {.count = 1}, [&](const ModelSize& size) { return request_for(size, nodes); });
    if (plan.winner == nullptr) return std::string("none");
    EXPECT_LE(plan.winner->best->days(), days);
    for (const SizedPlan& one : plan.sizes) {
      EXPECT_TRUE(&one <= plan.winner || one.least_days > days || !one.best || one.best->days() > days) << one.size->name;
      EXPECT_LT(one.least_days, one.best ? one.best->days() : one.least_days + 1);
    }
    return plan.winner->size->name;
  };
  EXPECT_EQ(largest(0.001, 1), "none");
  const std::string few = largest(3, 1), more = largest(12, 1);
  const auto place = [](const std::string& name) { return std::ranges::find(gpt3_sizes(), name, &ModelSize::name); };
  EXPECT_LT(place(few), place(more)) << few << " " << more;
}

// 8 FLOPs * 300e9 tokens * 5 billion parameters are 12e21, which 100 GPUs at 140 TFLOP/s compute in 9.92 days.
TEST(ModelSizesTest, TheReferenceTakesWhatItsFormulaSays) { EXPECT_NEAR(reference_size(9.92, 100, 300e9), 5e9, 0.01e9); }

}  // namespace
}  // namespace trireme

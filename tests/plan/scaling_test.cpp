// Layouts searched at many numbers of GPUs, and the curves drawn from them.
#include "plan/scaling.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "config/recipe.h"
#include "plan/layout_search.h"
#include "plan/layout_table.h"
#include "plan/scaling_chart.h"
#include "train/target_plan.h"

namespace trireme {
namespace {

PlanRequest request_for(const std::string& recipe, const std::string& cluster, std::vector<std::string> overrides = {}) {
  return {.settings = resolve_recipe(recipe, overrides, Validation::by_the_caller).settings,
          .platform = load_platform(cluster),
          .software = load_software_profile("trireme")};
}

TEST(CountsTest, DotsDouble) {
  EXPECT_EQ(counts_from_text("8,24,32", "--scale"), (std::vector<int64_t>{8, 24, 32}));
  EXPECT_EQ(counts_from_text("8,16,...,128", "--scale"), (std::vector<int64_t>{8, 16, 32, 64, 128}));
  EXPECT_EQ(counts_from_text("8,...,16,48", "--scale"), (std::vector<int64_t>{8, 16, 48}));
  for (const char* text : {"", "0", "8,8", "16,8", "8,...,100", "8,...", "...,8", "8,...,...,32", "8x", "-8", "8,,16", "9999999"})
    EXPECT_THROW(counts_from_text(text, "--scale"), UserError) << text;
}

TEST(ScalingTest, GpusAreWholeNodesOrAPartOfOne) {
  const PlanRequest request = request_for("gpt3/126m", "dgx-h100");
  EXPECT_EQ(with_gpus(request.settings, request.platform, 2).trainer.devices, 2);
  EXPECT_EQ(with_gpus(request.settings, request.platform, 24).trainer.num_nodes, 3);
  EXPECT_THROW(with_gpus(request.settings, request.platform, 12), UserError);
}

TEST(ScalingTest, StrongScalingKeepsTheBatchAndWeakScalingTheSamplesPerGpu) {
  const PlanRequest request = request_for("gpt3/126m", "dgx-h100", {"trainer.num_nodes=2", "model.global_batch_size=96"});
  const std::vector<int64_t> gpus = {8, 16, 32};
  const ScalingCurves curves = scaling_curves(request, gpus);
  for (size_t i = 0; i < gpus.size(); ++i) {
    ASSERT_TRUE(curves.strong.points[i].plan && curves.weak.points[i].plan);
    EXPECT_EQ(curves.strong.points[i].plan->request.settings.model.global_batch_size, 96);
    EXPECT_EQ(curves.weak.points[i].plan->request.settings.model.global_batch_size, 8 * gpus[i]);  // 6, to a power of two
    EXPECT_EQ(curves.weak.points[i].plan->request.settings.ranks(), gpus[i]);
  }
  EXPECT_EQ(curves.strong.efficiency(curves.strong.points[0]), 1);
  // A fixed batch leaves less work for each GPU to hide its communication with.
  EXPECT_LT(curves.strong.efficiency(curves.strong.points[2]), 0.98 * curves.weak.efficiency(curves.weak.points[2]));
}

TEST(ScalingTest, APointThatNothingFitsIsLeftOutOfThePicture) {
  const PlanRequest request = request_for("gpt3/5b", "aws-p4d", {"model.global_batch_size=64"});
  const ScalingCurves curves = scaling_curves(request, std::vector<int64_t>{1, 16});
  EXPECT_FALSE(curves.strong.points[0].plan);
  EXPECT_EQ(curves.strong.efficiency(curves.strong.points[1]), 1);
  EXPECT_NE(text_of(curves, "gpt3/5b").find("     1  no layout fits\n"), std::string::npos);
  const std::string svg = scaling_svg(curves, "a<b&c");
  EXPECT_NE(svg.find("a&lt;b&amp;c"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  size_t circles = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++circles;
  EXPECT_EQ(circles, 4);  // one of each curve in each panel
}

TEST(LayoutSearchSlow, TriesFp8AndShardingWhereAsked) {
  const auto variants = [](const std::string& cluster, bool varies) {
    const PlanRequest request =
        request_for("gpt3/126m", cluster, {"trainer.num_nodes=1", "trainer.devices=2", "model.global_batch_size=4"});
    std::set<std::pair<bool, bool>> found;
    for (const RunPlan& plan : search_layouts(request, {.count = 1000, .varies_fp8 = varies, .varies_shards = varies}).best)
      found.insert({plan.request.settings.model.fp8.enabled, plan.request.settings.model.optim.is_distributed()});
    return found;
  };
  using Variants = std::set<std::pair<bool, bool>>;
  EXPECT_EQ(variants("dgx-h100", false), (Variants{{false, true}}));
  EXPECT_EQ(variants("dgx-h100", true), (Variants{{false, false}, {false, true}, {true, false}, {true, true}}));
  EXPECT_EQ(variants("dgx-a100", true), (Variants{{false, false}, {false, true}}));
}

// ZB-H1 has a smaller bubble than 1F1B and does not run in FP8; chunks have the interleaved schedule.
TEST(LayoutSearchSlow, TriesThePipelineSchedulesThatRun) {
  PlanRequest request =
      request_for("gpt3/126m", "dgx-h100", {"trainer.num_nodes=1", "trainer.devices=2", "model.global_batch_size=4"});
  for (const bool fp8 : {false, true}) {
    request.settings.model.fp8.enabled = fp8;
    std::set<std::pair<bool, PipelineSchedule>> found;  // with chunks or not
    for (const RunPlan& plan : search_layouts(request, {.count = 1000}).best) {
      const ModelSettings& model = plan.request.settings.model;
      if (model.pipeline_model_parallel_size > 1)
        found.insert({model.virtual_pipeline_model_parallel_size > 1, model.pipeline_schedule});
    }
    const auto k1F1B = PipelineSchedule::one_forward_one_backward;
    std::set<std::pair<bool, PipelineSchedule>> expected{{false, k1F1B}, {true, k1F1B}};
    if (!fp8) expected.insert({false, PipelineSchedule::zero_bubble});
    EXPECT_EQ(found, expected) << fp8;
  }
}

TEST(LayoutSearchSlow, NoLayoutIsFasterThanTheLeastDays) {
  PlanRequest request = request_for("gpt3/5b", "dgx-h100");
  request.tokens = 300e9;
  const RunPlan fastest = search_layouts(request, {.count = 1}).best.front();
  const double least = least_days(request, {});
  EXPECT_NEAR(least / fastest.days(), fastest.rates.mfu(fastest.tflops_per_gpu()), 1e-9);
  EXPECT_NEAR(least_days(request, {.varies_fp8 = true}) / least, 989.0 / 1979, 1e-9);
}

TEST(LayoutSearchSlow, TheMemoryOfAShortStepIsThatOfTheWholeStep) {
  const PlanRequest request = request_for("gpt3/20b", "dgx-h100", {"trainer.num_nodes=2", "model.global_batch_size=256"});
  const LayoutSearch search = search_layouts(request, {.count = 12});
  ASSERT_EQ(search.best.size(), 12);
  for (const RunPlan& plan : search.best)
    EXPECT_EQ(plan.memory.total, plan_for_target(plan.request.settings, gpu_kind_of(request.platform)).total) << layout_row(plan);
}

}  // namespace
}  // namespace trireme

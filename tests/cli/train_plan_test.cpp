// trireme train --plan: what a step should take, beside what it took.
#include <nlohmann/json.hpp>

#include "cli/small_run.h"

namespace trireme {
namespace {

class TrainPlanTest : public SmallRun {
 protected:
  nlohmann::json parsed(const fs::path& path) const {
    std::ifstream file(path);
    return nlohmann::json::parse(file);
  }
};

TEST_F(TrainPlanTest, SaysWhatThePlannerSaysAndWhatWasMeasured) {
  const auto result = run_program(train("run", "trainer.max_steps=8 --plan --cluster dgx-h100"));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "\nplan    a step takes "));
  EXPECT_TRUE(contains(result.output, " on dgx-h100 (h100-80): compute "));
  EXPECT_TRUE(contains(result.output, "\nplan    predicted "));

  const nlohmann::json summary = parsed(folder_ / "run" / "summary.json");
  const nlohmann::json& plan = summary.at("plan");
  double sum = 0;
  for (const auto& [name, seconds] : plan.at("parts_s").items()) sum += seconds.get<double>();
  const auto predicted = plan.at("step_s").get<double>(), measured = plan.at("measured_s").get<double>();
  EXPECT_NEAR(sum, predicted, 1e-9);
  EXPECT_EQ(measured, summary.at("step_seconds").at("median").get<double>());
  EXPECT_NEAR(plan.at("error_pct").get<double>(), 100 * (predicted / measured - 1), 1e-9);

  const auto planned =
      run_program("plan --json --cluster dgx-h100 " + (folder_ / "small.yaml").string() + " trainer.max_steps=8");
  ASSERT_EQ(planned.status, 0) << planned.output;
  EXPECT_EQ(nlohmann::json::parse(planned.output).at("step_s").get<double>(), predicted);
}

TEST_F(TrainPlanTest, ADryRunPredictsForTheGpuThatWasNamed) {
  const auto text = run_program("train gpt3/5b --dry-run --plan --gpu a100-80");
  EXPECT_EQ(text.status, 0) << text.output;
  EXPECT_TRUE(contains(text.output, "\nplan    a step takes "));
  EXPECT_TRUE(contains(text.output, " on dgx-a100 (a100-80): "));
  const auto json = run_program("train gpt3/5b --dry-run --plan --cluster a3-mega --gpu h100 --json");
  ASSERT_EQ(json.status, 0) << json.output;
  const auto plan = nlohmann::json::parse(json.output).at("plan");
  EXPECT_EQ(plan.at("on"), "a3-mega (h100-80)");
  EXPECT_GT(plan.at("step_s").get<double>(), 0);
}

TEST_F(TrainPlanTest, ADryRunSaysWhatWouldFit) {
  const std::string run =
      "train gpt3/126m --dry-run --gpu a10g-24 trainer.num_nodes=1 trainer.devices=1 model.micro_batch_size=32 ";
  const auto text = run_program(run);
  ASSERT_EQ(text.status, 0) << text.output;
  EXPECT_TRUE(contains(text.output, ": does not fit, "));
  const size_t line = text.output.find("\nto fit  add ");
  ASSERT_NE(line, std::string::npos) << text.output;
  const size_t begin = line + std::string("\nto fit  add ").size();
  const std::string overrides = text.output.substr(begin, text.output.find("  (", begin) - begin);
  const auto changed = run_program(run + overrides);
  EXPECT_EQ(changed.status, 0) << changed.output;
  EXPECT_TRUE(contains(changed.output, ": fits, ")) << overrides;
  EXPECT_EQ(changed.output.find("\nto fit "), std::string::npos);
  const auto json = run_program(run + "--json");
  ASSERT_EQ(json.status, 0) << json.output;
  EXPECT_FALSE(nlohmann::json::parse(json.output).at("to_fit").at("overrides").empty());
}

TEST_F(TrainPlanTest, ARunThatDoesNotAskHasNoPlan) {
  const auto result = run_program(train("run", "trainer.max_steps=2"));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(result.output.find("\nplan "), std::string::npos) << result.output;
  EXPECT_FALSE(parsed(folder_ / "run" / "summary.json").contains("plan"));
}

TEST_F(TrainPlanTest, MistakesAreOneLine) {
  const auto refused = [&](const std::string& options, const std::string& part) {
    const auto result = run_program(train("run", options));
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_TRUE(contains(result.output, part));
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_FALSE(fs::exists(folder_ / "run"));
  };
  refused("--plan trainer.backend=cpu",
          "--plan: nothing is known of this CPU; name a platform or the path of a hardware file with --cluster");
  refused("--plan --cluster mars", "--cluster mars: not known; use ");
  refused("--cluster dgx-h100", "--plan");
}

}  // namespace
}  // namespace trireme

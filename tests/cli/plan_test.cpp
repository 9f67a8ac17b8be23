// trireme plan as a user types it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

nlohmann::json plan_json(const std::string& arguments) {
  const ProgramResult result = run_program("plan --json " + arguments);
  EXPECT_EQ(result.status, 0) << result.output;
  return nlohmann::json::parse(result.output);
}

TEST(PlanCommandTest, SaysWhetherARunFitsAndWhereItsTimeGoes) {
  const ProgramResult result = run_program("plan gpt3/5b --cluster a3-mega --nodes 16 --tokens 300B --price 2");
  ASSERT_EQ(result.status, 0) << result.output;
  for (const char* part : {"run     gpt3/5b on a3-mega: 128 GPUs of h100-80", "fits, ", "step    ", "compute ", "tokens/s",
                           "MFU is of 989 TFLOP/s", "time    300.0B tokens", "GPU-hours, cost", "software profile trireme"})
    EXPECT_NE(result.output.find(part), std::string::npos) << part << "\n" << result.output;
}

TEST(PlanCommandTest, PartsOfTheStepSumToItsTime) {
  const nlohmann::json plan = plan_json("gpt3/20b --cluster dgx-h100 --nodes 8");
  double sum = 0;
  for (const auto& [name, seconds] : plan.at("parts_s").items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, plan.at("step_s").get<double>(), 1e-9);
  EXPECT_GT(plan.at("mfu").get<double>(), 0.1);
  EXPECT_LT(plan.at("mfu").get<double>(), 0.8);
  EXPECT_TRUE(plan.at("training").is_null());
}

TEST(PlanCommandTest, ALayoutThatDoesNotFitIsSaid) {
  const nlohmann::json plan =
      plan_json("gpt3/5b --cluster aws-p4d --nodes 2 model.micro_batch_size=64 model.global_batch_size=1024");
  EXPECT_FALSE(plan.at("memory").at("fits").get<bool>());
  EXPECT_LT(plan.at("memory").at("left").get<int64_t>(), 0);
}

TEST(PlanCommandTest, WritesATimelineOfEveryStage) {
  const TemporaryFolder folder;
  const std::string path = (folder / "trace.json").string();
  ASSERT_EQ(run_program("plan gpt3/40b --cluster dgx-h100 --nodes 32 model.global_batch_size=128 --trace " + path).status, 0);
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::set<int64_t> stages;
  for (const nlohmann::json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") stages.insert(event.at("pid").get<int64_t>());
  EXPECT_EQ(stages.size(), 4);
}

TEST(PlanCommandTest, PageHasTheFiguresOfThePlanAndItsTimeline) {
  const TemporaryFolder folder;
  const std::string path = (folder / "plan.html").string();
  const std::string run = "gpt3/40b --cluster dgx-h100 --nodes 32 model.global_batch_size=128 --tokens 300B";
  const nlohmann::json plan = plan_json(run + " --html " + path);
  std::ifstream file(path);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  for (const std::string& figure : {fmt::format("{:.1f}", plan.at("tflops_per_gpu").get<double>()),
                                    fmt::format("{:.1f}%", 100 * plan.at("mfu").get<double>()),
                                    fmt::format("{:.1f} days", plan.at("training").at("days").get<double>())})
    EXPECT_NE(page.find(">" + figure + "<"), std::string::npos) << figure;
  for (const auto& [kind, bytes] : plan.at("memory").at("bytes").items())
    EXPECT_TRUE(bytes.get<int64_t>() == 0 || page.find("</i>" + kind + "<") != std::string::npos) << kind;

  const std::string_view begin = "id=data>";
  const size_t at = page.find(begin) + begin.size();
  const nlohmann::json timeline = nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
  ASSERT_EQ(timeline.at("stages").size(), 4);
  for (const nlohmann::json& stage : timeline.at("stages"))
    EXPECT_EQ(stage.size(), 5 * 2 * 2);  // fields, forward and backward, micro-batches
  EXPECT_NEAR(1e-6 * timeline.at("total_us").get<double>(), plan.at("step_s").get<double>(),
              0.01 * plan.at("step_s").get<double>());
}

TEST(PlanCommandTest, APageThatCannotBeWrittenIsOneLine) {
  const ProgramResult result = run_program("plan gpt3/126m --html /nowhere/plan.html");
  EXPECT_NE(result.status, 0);
  EXPECT_EQ(lines_of(result.output), 1) << result.output;
}

TEST(PlanCommandSlow, TheFirstLayoutOfASearchIsAPlanWithItsTime) {
  const std::string common = "gpt3/5b --cluster dgx-a100 --nodes 2 model.global_batch_size=64";
  const nlohmann::json search = plan_json(common + " --search --best 3");
  ASSERT_EQ(search.at("best").size(), 3);
  const nlohmann::json& first = search.at("best").at(0);
  std::string overrides;
  for (const nlohmann::json& change : first.at("overrides")) overrides += " '" + change.get<std::string>() + "'";
  const nlohmann::json plan = plan_json(common + overrides);
  EXPECT_NEAR(plan.at("step_s").get<double>(), first.at("step_s").get<double>(), 1e-9);
  EXPECT_TRUE(plan.at("memory").at("fits").get<bool>());
  EXPECT_LE(first.at("step_s"), search.at("best").at(2).at("step_s"));
}

TEST(PlanCommandSlow, TheWinnerOfASearchIsARecipe) {
  const TemporaryFolder folder;
  const std::string best = (folder / "best.yaml").string();
  for (const char* recipe : {"gpt3/126m --nodes 1,...,4 --vary fp8,sharding", "pythia/160m --nodes 2"}) {
    const nlohmann::json search = plan_json(std::string(recipe) + " --cluster dgx-h100 --search --output " + best);
    const nlohmann::json plan = plan_json(best + " --cluster dgx-h100");
    EXPECT_NEAR(plan.at("step_s").get<double>(), search.at("winner").at("step_s").get<double>(), 1e-9) << recipe;
    EXPECT_EQ(plan.at("gpus"), search.at("winner").at("gpus"));
    const ProgramResult dry_run = run_program("train " + best + " --dry-run");
    EXPECT_EQ(dry_run.status, 0) << dry_run.output;
  }
}

TEST(PlanCommandTest, ARecipeOfTheUserIsNotReplaced) {
  const TemporaryFolder folder;
  const std::string mine = (folder / "mine.yaml").string();
  std::ofstream(mine) << "extends: gpt3/126m\n";
  const ProgramResult result = run_program("plan " + mine + " --cluster dgx-h100 --nodes 1 --search --output " + mine);
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.output.find("exists and is not from trireme plan"), std::string::npos) << result.output;
  std::ifstream file(mine);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "extends: gpt3/126m");
}

TEST(PlanCommandSlow, ATargetIsReachedWithTheFewestGpus) {
  const std::string common = "gpt3/5b --cluster dgx-h100 --search --tokens 300B --memory 60GB --target-days ";
  const nlohmann::json search = plan_json(common + "8");
  const nlohmann::json& winner = search.at("winner");
  EXPECT_LE(winner.at("days").get<double>(), 8);
  EXPECT_LE(winner.at("memory").get<double>(), 60e9);
  for (const nlohmann::json& row : search.at("best"))
    EXPECT_TRUE(row.at("gpus") == winner.at("gpus") || row.at("days").get<double>() > 8) << row;
  EXPECT_GE(search.at("best").size(), 2);
  const nlohmann::json fewer = plan_json(common + "1e6 --nodes 1,2");
  EXPECT_EQ(fewer.at("winner").at("gpus"), 8);
}

TEST(PlanCommandTest, ChangedHardwareChangesThePrediction) {
  const std::string common = "--cluster dgx-h100 --nodes 8 gpt3/20b ";
  const nlohmann::json plan = plan_json(common), faster = plan_json("--set network.bandwidth=2x " + common);
  EXPECT_LT(faster.at("parts_s").at("dp").get<double>(), 0.8 * plan.at("parts_s").at("dp").get<double>());
  EXPECT_EQ(faster.at("parts_s").at("tp"), plan.at("parts_s").at("tp"));
  const nlohmann::json slower = plan_json(common + "--set bf16_tflops=0.5x --set memory_gib=40");
  EXPECT_GT(slower.at("parts_s").at("compute").get<double>(), 1.5 * plan.at("parts_s").at("compute").get<double>());
  EXPECT_EQ(slower.at("memory").at("gpu_memory").get<int64_t>(), int64_t{40} << 30);
}

TEST(PlanCommandSlow, ScaleFindsTheFastestLayoutAtEachNumberOfGpus) {
  const TemporaryFolder folder;
  const std::string svg = (folder / "scaling.svg").string();
  const nlohmann::json scaling = plan_json("gpt3/5b --cluster dgx-h100 --scale 4,8,...,32 --svg " + svg);
  ASSERT_EQ(scaling.at("strong").at("points").size(), 4);
  const nlohmann::json& point = scaling.at("strong").at("points").at(2);
  EXPECT_EQ(point.at("gpus"), 16);
  const nlohmann::json search = plan_json("gpt3/5b --cluster dgx-h100 --nodes 2 --search --best 1");
  EXPECT_DOUBLE_EQ(point.at("step_s").get<double>(), search.at("best").at(0).at("step_s").get<double>());
  std::ifstream file(svg);
  std::string first_line;
  std::getline(file, first_line);
  EXPECT_TRUE(first_line.starts_with("<svg xmlns="));
}

// What is said of the winner is what a plan of it says, typed with its overrides or as the recipe that was written.
TEST(PlanCommandSlow, TheModelOfABudgetCanBePlanned) {
  const TemporaryFolder folder;
  const std::string best = (folder / "best.yaml").string();
  const nlohmann::json budget = plan_json("--cluster dgx-h100 --nodes 1 --tokens 30B --days 5 --output " + best);
  const nlohmann::json& winner = budget.at("winner");
  EXPECT_LE(winner.at("days").get<double>(), 5);
  EXPECT_EQ(budget.at("sizes").size(), 14);
  std::string overrides;
  for (const nlohmann::json& change : winner.at("overrides")) overrides += " '" + change.get<std::string>() + "'";
  const std::string run = winner.at("recipe").get<std::string>() + overrides;
  for (const std::string& recipe : {run, best})
    EXPECT_NEAR(
        plan_json(recipe + " --cluster dgx-h100 --nodes 1").at("step_s").get<double>() / winner.at("step_s").get<double>(), 1,
        1e-9)
        << recipe;
}

TEST(PlanCommandTest, MistakesAreAnsweredInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpt3/5b --cluster mars", "--cluster mars: not known; use a3-high, a3-mega"},
      {"gpt3/5b --profile mars", "--profile mars: not known; use "},
      {"gpt3/5b --tokens 3Q", "--tokens 3Q: expected a number such as 300B or 1.4T"},
      {"gpt3/175b --cluster dgx-h100 --nodes 3", "makes 24 ranks"},
      {"gpt3/5b --cluster dgx-a100 --nodes 16 model.fp8=true", "has no FP8"},
      {"gpt3/175b --cluster dgx-a100 --nodes 1 --search", "no layout of gpt3/175b fits"},
      {"gpt3/5b --cluster dgx-h100 --scale 8,...,100", "--scale 8,...,100: ... doubles, and 64 doubled is not 100"},
      {"gpt3/5b --cluster dgx-h100 --scale 8,12", "12 GPUs are not whole nodes of dgx-h100, which have 8; use 8 or 16"},
      {"gpt3/126m --cluster dgx-h100 --scale 1 --svg /missing/a.svg", "/missing/a.svg"},
      {"gpt3/5b --scale 8 --search", "--search excludes --scale"},
      {"gpt3/5b --search --html plan.html", " excludes "},
      {"gpt3/5b --nodes 1,2", "--nodes 1,2: several numbers of nodes need --search"},
      {"gpt3/5b --nodes 0", "--nodes 0: expected numbers from 1"},
      {"gpt3/5b --memory 80", "--memory 80: expected an amount such as 80GB"},
      {"gpt3/5b --memory 800GB", "h100-80 has 79.65 GiB"},
      {"gpt3/5b --target-days 3 --search", "--target-days 3 needs --tokens"},
      {"gpt3/5b --target-days 3", "--target-days 3 needs --search"},
      {"gpt3/5b --cluster dgx-h100 --tokens 300B --target-days 1 --search --nodes 1", "not reached, 8 GPUs take"},
      {"gpt3/5b --vary fp8", "--vary needs --search"},
      {"gpt3/5b --days 3", "--days 3 chooses among the GPT-3 sizes: leave out gpt3/5b, or plan it with --target-days"},
      {"--days 3 --nodes 1", "--days 3 needs --tokens, such as --tokens 300B"},
      {"--days 3 --tokens 1B", "--days 3 needs --nodes, such as --nodes 32"},
      {"--days 0.001 --nodes 1 --tokens 1T", "no GPT-3 size is trained on 1T tokens in that time"},
      {"gpt3/5b --output best.yaml", "needs --search, --days, --measure or --calibrate"},
      {"gpt3/5b --set network.width=2x", "network_width is not a key of the cluster or the GPU; use gpus_per_node"},
      {"gpt3/5b --set network.bandwidth=2y", "expected a number above 0, or a factor such as network_bandwidth=2x"},
      {"gpt3/5b --set network_bandwidth", "expected a number above 0"},
      {"gpt3/5b --set nvlink_domain=1.5", "is not a whole number of GPUs"},
      {"gpt3/5b --set nvlink_share=2x", "is a share; give at most 1"},
      {"--evaluate missing.csv", "missing.csv"},
  };
  for (const auto& [arguments, answer] : cases) {
    const ProgramResult result = run_program(std::string("plan ") + arguments);
    EXPECT_NE(result.status, 0) << arguments;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_NE(result.output.find(answer), std::string::npos) << arguments << ": " << result.output;
  }
}

}  // namespace
}  // namespace trireme

// Which run a command goes on with, and that nothing of another run is written over.
#include <nlohmann/json.hpp>

#include "cli/small_run.h"

namespace trireme {
namespace {

class ResumeTest : public SmallRun {
 protected:
  ResumeTest() {
    folder_.write("a.yaml", "extends: small.yaml\nmodel: {optim: {lr: 1e-3}}\n");
    folder_.write("b.yaml", "extends: small.yaml\nmodel: {optim: {lr: 2e-3}}\n");
  }
  // In the folder of the test, where runs/ then is.
  ProgramResult run_here(const std::string& arguments) const {
    return run_shell(fmt::format("cd {} && {} {}", folder_.path().string(), TRIREME_BINARY, arguments));
  }
  // The arguments of the command that the run tells its user to type next.
  std::string next_arguments() const {
    const auto summary = nlohmann::json::parse(text_of("run/summary.json"));
    return summary.at("next_command").get<std::string>().substr(std::string("trireme ").size());
  }
};

TEST_F(ResumeTest, RunsOfARecipeFileAreItsOwn) {
  ASSERT_EQ(run_here("train a.yaml trainer.max_steps=2").status, 0);
  const auto other = run_here("train b.yaml trainer.max_steps=4 --resume");
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_TRUE(contains(other.output, "there is no run runs/b")) << other.output;
  EXPECT_FALSE(fs::exists(folder_ / "runs/b"));
  const auto own = run_here("train a.yaml trainer.max_steps=4 --resume");
  EXPECT_EQ(own.status, 0) << own.output;
  EXPECT_TRUE(contains(own.output, "resumed from step 2"));
}

TEST_F(ResumeTest, ANameThatTheFileOrTheUserGivesStays) {
  folder_.write("named.yaml", "extends: small.yaml\nexp_manager: {name: mine}\n");
  EXPECT_TRUE(contains(run_here("config named.yaml").output, "name: mine"));
  EXPECT_TRUE(contains(run_here("config a.yaml exp_manager.name=typed").output, "name: typed"));
  EXPECT_TRUE(contains(run_here("config a.yaml").output, "  name: a\n"));
  folder_.write("launched.yaml", "extends: gpt3/126m\nrun: {name: of_the_run}\n");
  EXPECT_TRUE(contains(run_here("config launched.yaml").output, "name: of_the_run"));
  folder_.write("long.yaml", "extends: gpt3/126m\n");
  EXPECT_TRUE(contains(run_here("config long.yaml").output, "  name: long\n"));
  EXPECT_TRUE(contains(run_here("config demo").output, "  name: demo\n"));
}

TEST_F(ResumeTest, ChangedMathematicsIsNamedAndNeedsAnOption) {
  ASSERT_EQ(run_program(train("run", "trainer.max_steps=2")).status, 0);
  const std::string change = "trainer.max_steps=4 model.optim.lr=5e-3 model.seed=7 model.data.num_workers=1 ";
  const auto refused = run_program(train("run", change + "--resume"));
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_EQ(lines_of(refused.output), 1) << refused.output;
  for (const char* words : {"model.optim.lr=0.003 (now 0.005)", "model.seed=", "(now 7)", "--changed"})
    EXPECT_TRUE(contains(refused.output, words));
  EXPECT_FALSE(contains(refused.output, "num_workers"));
  EXPECT_FALSE(contains(refused.output, "max_steps"));
  EXPECT_FALSE(fs::exists(folder_ / "run/recipe.1.yaml"));
  const auto accepted = run_program(train("run", change + "--resume --changed"));
  EXPECT_EQ(accepted.status, 0) << accepted.output;
  EXPECT_TRUE(contains(accepted.output, "warning: ")) << accepted.output;
  EXPECT_TRUE(contains(accepted.output, "resumed from step 2"));
}

TEST_F(ResumeTest, WithoutARunToResumeNothingIsNamedThatNeverWas) {
  const auto nothing = run_here("train a.yaml --resume");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_TRUE(contains(nothing.output, "there is no run runs/a, so no checkpoint to resume")) << nothing.output;
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  ASSERT_EQ(run_here("train a.yaml trainer.max_steps=2 exp_manager.create_checkpoint_callback=false").status, 0);
  const auto none_saved = run_here("train a.yaml --resume");
  EXPECT_TRUE(contains(none_saved.output, "there is no checkpoint in runs/a to resume")) << none_saved.output;
}

using ResumeSlow = ResumeTest;

TEST_F(ResumeSlow, TheNextLineAsPrintedLeavesTheLogsAlone) {
  for (const char* more :
       {"exp_manager.resume_if_exists=true exp_manager.resume_ignore_no_checkpoint=true "
        "exp_manager.create_checkpoint_callback=false trainer.max_steps=3",
        "--benchmark trainer.max_steps=3", "--benchmark trainer.max_steps=3 'model.data.splits_string=\"90, 10, 0\"'"}) {
    const auto first = run_program(train("run", more));
    ASSERT_EQ(first.status, 0) << first.output;
    const std::string summary = text_of("run/summary.json"), log = text_of("run/dllogger/rank-0/dllogger.json");
    const auto second = run_program(next_arguments());
    ASSERT_EQ(second.status, 0) << next_arguments() << "\n" << second.output;
    EXPECT_EQ(text_of("run/summary.json"), summary);
    EXPECT_EQ(text_of("run/dllogger/rank-0/dllogger.json"), log);
    EXPECT_TRUE(fs::exists(folder_ / "run-trace/summary.json"));
    fs::remove_all(folder_ / "run");
    fs::remove_all(folder_ / "run-trace");
  }
}

// The same command again, in the same folder, with nothing to resume from.
TEST_F(ResumeTest, AnEarlierRunWithoutACheckpointMovesAside) {
  const std::string outside = (folder_ / "outside.json").string();
  const std::string again = fmt::format(
      "exp_manager.resume_if_exists=true exp_manager.resume_ignore_no_checkpoint=true trainer.max_steps=3 "
      "exp_manager.create_checkpoint_callback=false exp_manager.dllogger_logger_kwargs.json_file={}",
      outside);
  ASSERT_EQ(run_program(train("run", again)).status, 0);
  const std::string summary = text_of("run/summary.json"), metrics = text_of("run/metrics.csv"), log = text_of("outside.json");
  ASSERT_EQ(run_program(train("run", again)).status, 0);
  EXPECT_EQ(text_of("run/run_0/summary.json"), summary);
  EXPECT_EQ(text_of("run/run_0/metrics.csv"), metrics);
  EXPECT_EQ(text_of("outside.1.json"), log);
  EXPECT_TRUE(fs::exists(folder_ / "run/summary.json"));
}

TEST_F(ResumeTest, ResumingAFinishedRunKeepsItsSummary) {
  ASSERT_EQ(run_program(train("run", "trainer.max_steps=12")).status, 0);
  const std::string summary = text_of("run/summary.json"), log = text_of("run/dllogger/rank-0/dllogger.json");
  const auto again = run_program(train("run", "trainer.max_steps=12 --resume"));
  EXPECT_EQ(again.status, 0) << again.output;
  EXPECT_EQ(text_of("run/summary.json"), summary);
  EXPECT_EQ(text_of("run/dllogger/rank-0/dllogger.json"), log);
}

// Without an argument the commands that read runs take the newest of all recipes, whatever its name.
TEST_F(ResumeTest, TheNewestRunIsFoundWithoutAName) {
  ASSERT_EQ(run_here("train b.yaml trainer.max_steps=2").status, 0);
  ASSERT_EQ(run_here("train a.yaml trainer.max_steps=3").status, 0);
  const auto text = run_here("generate --json 2>/dev/null");
  ASSERT_EQ(text.status, 0) << text.output;
  const std::string checkpoint = nlohmann::json::parse(text.output).at("checkpoint");
  EXPECT_TRUE(contains(checkpoint, "runs/a/")) << checkpoint;
  for (const char* arguments : {"metrics --json", "metrics runs --json", "report --json"}) {
    const auto found = run_here(std::string(arguments) + " 2>/dev/null");
    ASSERT_EQ(found.status, 0) << arguments << found.output;
    const auto run = nlohmann::json::parse(found.output).at("runs").at(0);
    EXPECT_EQ(run.at("last_step"), 2) << arguments;
    EXPECT_TRUE(run.at("run").get<std::string>().starts_with("a, 20")) << run.at("run");
  }
  const std::string page = text_of("report.html");
  EXPECT_TRUE(contains(page.substr(page.find("<title>"), 40), "<title>a, 20"));
  const auto nothing = run_shell(fmt::format("cd / && {} metrics", TRIREME_BINARY));
  EXPECT_EQ(nothing.status, 2) << nothing.output;
}

}  // namespace
}  // namespace trireme

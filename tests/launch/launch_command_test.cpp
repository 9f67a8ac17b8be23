// What all targets of `trireme launch` share, as users type it: launch files, sweeps, site commands, slips.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class LaunchCommand : public testing::Test {
 protected:
  LaunchCommand() {
    folder_.write("tiny.yaml",
                  "extends: demo\ntrainer: {max_steps: 12, backend: cpu, val_check_interval: 1000}\n"
                  "model: {num_layers: 1, hidden_size: 32, num_attention_heads: 4, encoder_seq_length: 32, micro_batch_size: 1, "
                  "global_batch_size: 2}\n");
    folder_.write("empty.yaml", "{}\n");
  }
  ProgramResult run(const std::string& arguments, const std::string& environment = "") const {
    return run_shell("cd " + folder_.path().string() + " && TRIREME_SITE=" + (folder_ / "empty.yaml").string() + " " +
                     environment + " " TRIREME_BINARY " launch " + arguments);
  }
  void expect_line(const std::string& arguments, const std::string& part, const std::string& environment = "") const {
    const ProgramResult result = run(arguments, environment);
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_TRUE(contains(result.output, part));
  }
  TemporaryFolder folder_;
};

class LaunchCommandSlow : public LaunchCommand {};

TEST_F(LaunchCommandSlow, ASavedLaunchIsRepeatedUnderTheNextName) {
  const ProgramResult first = run("local tiny.yaml --ranks 1 --name pair --save launches/pair.yaml trainer.max_steps=6");
  EXPECT_EQ(first.status, 0) << first.output;
  const ProgramResult second = run("launches/pair.yaml");
  EXPECT_EQ(second.status, 0) << second.output;
  EXPECT_TRUE(contains(second.output, "launch  pair-2 on local"));
  const ProgramResult third = run("launches/pair.yaml --name third trainer.max_steps=8");
  EXPECT_EQ(third.status, 0) << third.output;
  EXPECT_TRUE(contains(third.output, "8/8"));
  const ProgramResult more = run("launches/pair.yaml --resume trainer.max_steps=9");
  EXPECT_TRUE(contains(more.output, "resumed from step 6")) << more.output;
  const std::string list = run("--list").output;
  for (const char* name : {"pair ", "pair-2 ", "third "}) EXPECT_TRUE(contains(list, name));
  EXPECT_TRUE(contains(run("--fetch third '*.csv'").output, "1 file to "));
  EXPECT_TRUE(fs::exists(folder_ / "third/results/metrics.csv"));
}

TEST_F(LaunchCommandSlow, ASweepEndsWithItsRunsSideBySide) {
  const ProgramResult sweep = run("local tiny.yaml --ranks 1 --name sizes --sweep model.micro_batch_size=1,2,3");
  EXPECT_EQ(sweep.status, 0) << sweep.output;
  EXPECT_TRUE(contains(sweep.output, "sweep   model.micro_batch_size=3: left out: "));
  const size_t table = sweep.output.find("tokens/s  per device");
  ASSERT_NE(table, std::string::npos) << sweep.output;
  for (const char* row : {"\nmicro_batch_size=1", "\nmicro_batch_size=2"})
    EXPECT_NE(sweep.output.find(row, table), std::string::npos) << row;
  EXPECT_TRUE(fs::exists(folder_ / "runs/sizes/report.html"));
}

TEST_F(LaunchCommandSlow, CommandsOfTheSiteRunBeforeAndAfterAlsoAfterAFailure) {
  folder_.write("site.yaml", "before: [echo begin >> fleet.txt]\nafter: [echo end >> fleet.txt]\n");
  EXPECT_NE(run("local tiny.yaml --site site.yaml --max-restarts 0 --env OMP_NUM_THREADS=1 model.data.data_prefix=[missing.txt]")
                .status,
            0);
  EXPECT_EQ(run_shell("cat " + (folder_ / "fleet.txt").string()).output, "begin\nend\n");
  folder_.write("wrong.yaml", "before: ['exit 3']\n");
  const ProgramResult refused = run("local tiny.yaml --site wrong.yaml --name never");
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.output, "before exit 3: exit status 3"));
  EXPECT_FALSE(fs::exists(folder_ / "runs/never"));
}

TEST_F(LaunchCommand, ANameThatIsOnlyTheNextFreeOneIsNotSaved) {
  fs::create_directories(folder_ / "runs/tiny");
  const ProgramResult result = run("local tiny.yaml --ranks 1 --save saved.yaml --dry-run");
  EXPECT_TRUE(contains(result.output, "launch  tiny-2 on local"));
  EXPECT_EQ(run_shell("cat " + (folder_ / "saved.yaml").string()).output,
            "launch: 1\ntarget: local\nrecipe: tiny.yaml\nranks: 1\n");
}

TEST_F(LaunchCommand, SlipsAreOneLineAndStartNothing) {
  expect_line("lokal tiny.yaml", "lokal is neither a target nor a launch file; did you mean local?");
  expect_line("local tiny.yaml --rank 2", "did you mean --ranks?");
  expect_line("local tiny.yaml --ranks 0", "--ranks 0: use 1 or more");
  expect_line("local nosuch", "no such recipe");
  expect_line("local", "which recipe?");
  expect_line("local tiny.yaml --name big/run", "use at most 48 letters, digits, underscores, dots and dashes");
  expect_line("local tiny.yaml --network tcpxx", "use azure-ib, efa");
  expect_line("local tiny.yaml --stages evaluation", "evaluation needs --tasks, such as ");
  expect_line("local tiny.yaml model.hidden_size=33", "hidden_size");
  expect_line("--status none", "there is no launch none in runs");
  expect_line("--list --stop none", "give one of");
  expect_line("--stop none x.y=1", "only --fetch takes a further word");
  folder_.write("newer.yaml", "launch: 2\ntarget: local\nrecipe: demo\n");
  expect_line("newer.yaml", "version 2, and this program reads versions up to 1");
  expect_line("slurm --dry-run gpt3/5b --nodes 4", "NODES=8 in the environment differ", "NODES=8");
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

}  // namespace
}  // namespace trireme

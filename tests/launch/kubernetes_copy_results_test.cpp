// The copy of a run folder while the run goes on.
#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "cli/small_run.h"
#include "launch/kubernetes/copy_results.h"

namespace trireme {
namespace {

class CopyResultsTest : public testing::Test {
 protected:
  std::string text(const std::string& name) const { return read_file(folder_ / name, 1 << 20); }
  // trireme launch copy-results run copy, with these words in the place of the options.
  std::string command(const std::string& options, const std::string& script) const {
    return fmt::format("launch copy-results {} {} {} -- sh -c '{}'", (folder_ / "run").string(), (folder_ / "copy").string(),
                       options, script);
  }
  TemporaryFolder folder_;
};

TEST_F(CopyResultsTest, CopiesWhatChanged) {
  folder_.write("run/a/log.txt", "one");
  folder_.write("run/b.12.partial", "half");
  EXPECT_EQ(copy_changed_files(folder_ / "run", folder_ / "copy"), 1);
  EXPECT_EQ(text("copy/a/log.txt"), "one");
  EXPECT_EQ(copy_changed_files(folder_ / "run", folder_ / "copy"), 0);
  folder_.write("run/a/log.txt", "one and two");
  folder_.write("run/new", "");
  EXPECT_EQ(copy_changed_files(folder_ / "run", folder_ / "copy"), 2);
  EXPECT_EQ(text("copy/a/log.txt"), "one and two");
  EXPECT_FALSE(fs::exists(folder_ / "copy/b.12.partial"));
}

TEST_F(CopyResultsTest, CopiesAnEmptyRunAsNothing) { EXPECT_EQ(copy_changed_files(folder_ / "none", folder_ / "copy"), 0); }

// A full bucket must not leave half of a file under its name. The manifest of a checkpoint commits it, so it comes last.
TEST_F(CopyResultsTest, CopiesWhatWasWrittenLastAtTheEnd) {
  folder_.write("run/0-manifest.json", "{}");
  folder_.write("run/z-shard", "weights");
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(folder_ / "run/0-manifest.json", now);
  fs::last_write_time(folder_ / "run/z-shard", now - std::chrono::seconds(10));
  fs::create_directories(folder_ / "copy/z-shard/in-the-way");
  EXPECT_THROW(copy_changed_files(folder_ / "run", folder_ / "copy"), Failure);
  EXPECT_FALSE(fs::exists(folder_ / "copy/0-manifest.json"));
  for (const auto& entry : fs::directory_iterator(folder_ / "copy")) EXPECT_EQ(entry.path().filename(), "z-shard");
}

TEST_F(CopyResultsTest, CopiesAlsoAfterAFailure) {
  folder_.write("run/log.txt", "before");
  const ProgramResult result = run_program(command("", "echo after > " + (folder_ / "run/end.txt").string() + "; exit 93"));
  EXPECT_EQ(result.status, 93) << result.output;
  EXPECT_EQ(text("copy/end.txt"), "after\n");
}

TEST_F(CopyResultsTest, ASuccessThatCannotBeCopiedIsAFailure) {
  folder_.write("run/log.txt", "text");
  folder_.write("copy", "a file");
  const ProgramResult result = run_program(command("", "true"));
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.output, "copy-results: "));
  EXPECT_EQ(run_program(command("", "exit 2")).status, 2);  // the run's own status says more
}

TEST_F(CopyResultsTest, CopiesWhileTheCommandRunsAndPassesSignalsOn) {
  folder_.write("run/log.txt", "early");
  BackgroundProgram program(
      command("--every 1", "trap \"touch " + (folder_ / "run/saved").string() + "; exit 75\" TERM; while :; do sleep 0.1; done"));
  EXPECT_TRUE(eventually([&] { return fs::exists(folder_ / "copy/log.txt"); }));
  program.send(SIGTERM);
  EXPECT_EQ(program.finish(), 75);
  EXPECT_TRUE(fs::exists(folder_ / "copy/saved"));
}

TEST_F(CopyResultsTest, RestoresOnceWithoutACommand) {
  folder_.write("bucket/results/metrics.csv", "step");
  const std::string folders = (folder_ / "bucket").string() + " " + (folder_ / "run").string();
  EXPECT_EQ(run_program("launch copy-results " + folders).status, 0);
  EXPECT_EQ(text("run/results/metrics.csv"), "step");
  EXPECT_EQ(run_program("launch copy-results " + folders + " --every 0 -- true").status, 2);
  EXPECT_EQ(run_program("launch copy-results " + folders + " -- no-such-program").status, 1);
}

}  // namespace
}  // namespace trireme

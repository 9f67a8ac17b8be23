#include "train/run_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Folders : public testing::Test {
 protected:
  Folders() {
    settings.exp_dir = folder.path().string();
    settings.name = "gpt";
  }
  fs::path claimed() const {
    RunFolder run = RunFolder::choose(settings, Resume::no);
    run.claim();
    return run.path();
  }
  TemporaryFolder folder;
  ExpManagerSettings settings;
};

TEST_F(Folders, RunsOfTheSameSecondGetFoldersOfTheirOwn) {
  // All are chosen before any is made, as by processes that start together.
  std::vector<RunFolder> runs;
  for (int i = 0; i < 3; ++i) runs.push_back(RunFolder::choose(settings, Resume::no));
  std::set<fs::path> paths;
  for (RunFolder& run : runs) {
    run.claim();
    paths.insert(run.path());
  }
  EXPECT_EQ(paths.size(), 3u);
}

TEST_F(Folders, VersionsCountUp) {
  settings.use_datetime_version = false;
  for (int i = 0; i < 12; ++i) EXPECT_EQ(claimed().filename(), fmt::format("version_{}", i));
  RunFolder first = RunFolder::choose(settings, Resume::no), second = RunFolder::choose(settings, Resume::no);
  first.claim();
  second.claim();
  EXPECT_EQ(first.path().filename(), "version_12");
  EXPECT_EQ(second.path().filename(), "version_13");
}

TEST_F(Folders, ResumeTakesTheNewestVersionByNumber) {
  settings.use_datetime_version = false;
  for (const int version : {9, 10})
    folder.write(fmt::format("gpt/version_{}/checkpoints/step-00000001/manifest.json", version), "{}");
  folder.write("gpt/version_11/recipe.yaml", "");  // without a checkpoint
  EXPECT_EQ(RunFolder::choose(settings, Resume::yes).path().filename(), "version_10");
}

TEST_F(Folders, AVersionNamesTheFolder) {
  settings.version = "mine";
  EXPECT_EQ(claimed(), folder / "gpt/mine");
}

TEST_F(Folders, AFolderWithAnyTraceOfARunIsNotTakenForANewOne) {
  settings.explicit_log_dir = (folder / "run").string();
  EXPECT_NO_THROW(RunFolder::choose(settings, Resume::no));
  folder.write("run/launcher.log", "");  // what a launcher leaves there is none
  EXPECT_NO_THROW(RunFolder::choose(settings, Resume::no));
  folder.write("run/cmd-args.log", "");  // a run that was killed before its first step
  const auto message = message_of<UserError>([&] { RunFolder::choose(settings, Resume::no); });
  EXPECT_TRUE(contains(message, "explicit_log_dir"));
  EXPECT_NO_THROW(RunFolder::choose(settings, Resume::yes));
}

TEST_F(Folders, ASecondProcessIsKeptOut) {
  settings.explicit_log_dir = (folder / "run").string();
  RunFolder first = RunFolder::choose(settings, Resume::no), second = RunFolder::choose(settings, Resume::no);
  first.claim();
  EXPECT_THROW(second.claim(), UserError);
}

TEST_F(Folders, WhereTheDlloggerFileGoes) {
  settings.explicit_log_dir = (folder / "run").string();
  const auto path = [&](const std::string& file) {
    settings.dllogger_json_file = file;
    return RunFolder::choose(settings, Resume::no).dllogger(settings);
  };
  EXPECT_EQ(path(""), folder / "run/dllogger/rank-0/dllogger.json");
  EXPECT_EQ(path("./dllogger.json"), folder / "run/dllogger/rank-0/dllogger.json");  // NeMo's default
  EXPECT_EQ(path("logs/mine.json"), folder / "run/logs/mine.json");
  EXPECT_EQ(path((folder / "elsewhere.json").string()), folder / "elsewhere.json");
  folder.write("elsewhere.json", "the log of another run");
  EXPECT_TRUE(contains(message_of<UserError>([&] { path((folder / "elsewhere.json").string()); }), "json_file"));
}

}  // namespace
}  // namespace trireme

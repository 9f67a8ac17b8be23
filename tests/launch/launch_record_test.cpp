// launch.json: what was started where.
#include "launch/launch_record.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

LaunchRecord example(const std::filesystem::path& folder) {
  return {.name = folder.filename().string(),
          .target = TargetKind::slurm,
          .launched = "2026-01-02 03:04:05",
          .host = "login",
          .user = "me",
          .folder = folder,
          .jobs = {{.name = "a-data", .stage = JobStage::data_preparation, .id = "12_[0-3]", .folder = folder, .run_folder = {}},
                   {.name = "a", .stage = JobStage::training, .id = "13", .folder = folder, .run_folder = folder / "results"}}};
}

TEST(LaunchRecords, AreFoundByNameAndByFolder) {
  const TemporaryFolder results;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directories(results / name);
    write_record(example(results / name));
  }
  results.write("other/file.txt", "");
  EXPECT_EQ(list_records(results.path()).size(), 2u);
  for (const std::string& name : {std::string("a"), (results / "a").string()}) {
    const LaunchRecord found = find_record(results.path(), name);
    EXPECT_EQ(found.name, "a");
    EXPECT_EQ(found.target, TargetKind::slurm);
    ASSERT_EQ(found.jobs.size(), 2u);
    EXPECT_EQ(found.jobs[0].stage, JobStage::data_preparation);
    EXPECT_EQ(found.jobs[1].id, "13");
    EXPECT_EQ(found.jobs[1].run_folder, results / "a/results");
  }
  EXPECT_TRUE(contains(message_of<UserError>([&] { find_record(results.path(), "c"); }), "there are a, b"));
}

TEST(LaunchRecords, DamagedAndNewerOnesAreOneLine) {
  const TemporaryFolder results;
  const auto error_of = [&](const std::string& text) {
    results.write("a/launch.json", text);
    return message_of<UserError>([&] { read_record(results / "a"); });
  };
  EXPECT_TRUE(contains(error_of("{\"version\": 9}"), "version 9 is newer than this program"));
  EXPECT_TRUE(contains(error_of("{\"version\": 1}"), "is damaged"));
  EXPECT_TRUE(contains(error_of("{\"ver"), "is damaged"));
  EXPECT_TRUE(contains(error_of(R"({"version":1,"name":"a","target":"moon","launched":"","host":"","user":"","jobs":[]})"),
                       "it names no target"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_record(results.path()); }), "is not the folder of a launch"));
}

}  // namespace
}  // namespace trireme

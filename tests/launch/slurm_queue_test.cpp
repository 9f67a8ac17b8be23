// How jobs are doing: what squeue and accounting print, and what jobs leave in their folders.
#include <gtest/gtest.h>

#include "launch/slurm/job_end.h"
#include "launch/slurm/job_queue.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

TEST(SlurmQueue, ReadsTheLinesOfSqueue) {
  const auto jobs = parse_queue(
      "PENDING|Resources|2026-11-18T19:29:09|N/A|0:00|1-00:00:00|\n"
      "RUNNING|None|2026-11-18T19:29:09|2026-11-18T19:29:10|1:02|UNLIMITED|n[1-2]\nnot a line\n\n");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].reason, "Resources");
  EXPECT_EQ(jobs[0].nodes, "");
  EXPECT_EQ(jobs[1].used, "1:02");
  EXPECT_EQ(jobs[1].nodes, "n[1-2]");
}

TEST(SlurmQueue, KnowsTheFinalStates) {
  EXPECT_EQ(status_of_state("COMPLETED", "0:0").phase, JobPhase::done);
  EXPECT_EQ(status_of_state("CANCELLED by 1000", "0:15").phase, JobPhase::stopped);
  EXPECT_EQ(status_of_state("FAILED", "93:0").exit_status, 93);
  EXPECT_EQ(status_of_state("FAILED", "0:9").exit_status, 1);
  EXPECT_EQ(status_of_state("NODE_FAIL", "").phase, JobPhase::failed);
  EXPECT_EQ(status_of_state("TIMEOUT", "0:0").detail, "Slurm's time limit ended it");
  EXPECT_EQ(status_of_state("", "").phase, JobPhase::unknown);
}

TEST(SlurmQueue, BelievesTheResultOfTheSameJobOnly) {
  const TemporaryFolder folder;
  const JobRecord job{.name = "run", .stage = JobStage::training, .id = "12", .folder = folder.path(), .run_folder = {}};
  const auto path = job_end_path(folder.path(), std::nullopt);
  EXPECT_FALSE(read_job_end(path, "12").has_value());
  write_job_end(path, {.job = "12", .exit_status = 75, .was_stopped = false, .reason = "saved"});
  ASSERT_TRUE(read_job_end(path, "12").has_value());
  EXPECT_FALSE(read_job_end(path, "13").has_value());
  SlurmJobQueue queue;
  EXPECT_EQ(queue.status(job).phase, JobPhase::stopped);
  EXPECT_EQ(queue.status(job).detail, "saved");
  for (const char* damaged : {"", "{", "[]", "{\"job\": 12}", "null"}) {
    folder.write("end.json", damaged);
    EXPECT_FALSE(read_job_end(path, "12").has_value()) << damaged;
  }
  EXPECT_EQ(job_end_path("f", 3), "f/task-00003.end.json");
}

}  // namespace
}  // namespace trireme

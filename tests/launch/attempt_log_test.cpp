// When a launch restarts itself and when it gives up.
#include "launch/attempt_log.h"

#include <gtest/gtest.h>

#include "base/exit_status.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

class AttemptLogTest : public testing::Test {
 protected:
  AttemptLog log(int64_t most = 3) { return {folder_.path(), folder_ / "results", most}; }
  void save_checkpoint(int64_t step) {
    const std::string name =
        "results/checkpoints/step-" + std::string(8 - std::to_string(step).size(), '0') + std::to_string(step);
    folder_.write(name + "/manifest.json", "{}");
  }

  TemporaryFolder folder_;
};

TEST_F(AttemptLogTest, GivesUpAfterThreeAttemptsWithoutACheckpoint) {
  AttemptLog attempts = log();
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(attempts.begin(), i);
    EXPECT_EQ(attempts.end(kFailed, "rank 0 ended").action, NextAction::restart);
  }
  attempts.begin();
  const AttemptVerdict last = attempts.end(kFailed, "rank 0 ended");
  EXPECT_EQ(last.action, NextAction::finish);
  EXPECT_EQ(last.exit_status, kDoNotRetry);
  EXPECT_TRUE(contains(last.line, "3 attempts without a new checkpoint"));
}

TEST_F(AttemptLogTest, ACheckpointStartsTheCountAgain) {
  AttemptLog attempts = log(2);
  attempts.begin();
  EXPECT_EQ(attempts.end(kFailed, "").action, NextAction::restart);
  attempts.begin();
  save_checkpoint(10);
  EXPECT_EQ(attempts.end(kFailed, "").action, NextAction::restart);
  attempts.begin();
  EXPECT_EQ(attempts.end(kFailed, "").action, NextAction::restart);
  attempts.begin();
  EXPECT_EQ(attempts.end(kFailed, "").exit_status, kDoNotRetry);
  EXPECT_EQ(attempts.attempts()[1].first_step, -1);
  EXPECT_EQ(attempts.attempts()[1].last_step, 10);
}

TEST_F(AttemptLogTest, CountsAttemptsOfEarlierSupervisors) {
  {
    AttemptLog attempts = log();
    attempts.begin();
    attempts.end(kFailed, "node lost");
  }
  {
    AttemptLog killed = log();
    EXPECT_EQ(killed.begin(), 2);
  }
  AttemptLog attempts = log();
  EXPECT_EQ(attempts.begin(), 3);
  EXPECT_EQ(attempts.end(kFailed, "").exit_status, kDoNotRetry);
  EXPECT_FALSE(read_attempts(folder_.path())[1].exit_status.has_value());
}

TEST_F(AttemptLogTest, FinalStatusesAreNotTriedAgain) {
  for (const int status : {kDone, kUserError, kStoppedAfterSaving, kDoNotRetry}) {
    AttemptLog attempts = log();
    attempts.begin();
    const AttemptVerdict verdict = attempts.end(status, "");
    EXPECT_EQ(verdict.action, NextAction::finish) << status;
    EXPECT_EQ(verdict.exit_status, status);
  }
  AttemptLog once = log(0);
  once.begin();
  EXPECT_EQ(once.end(kFailed, "").exit_status, kFailed);
}

TEST_F(AttemptLogTest, ADamagedLogIsAnEmptyOne) {
  folder_.write("attempts.json", "[{\"attempt\":");
  EXPECT_TRUE(read_attempts(folder_.path()).empty());
  EXPECT_EQ(log().begin(), 1);
}

}  // namespace
}  // namespace trireme

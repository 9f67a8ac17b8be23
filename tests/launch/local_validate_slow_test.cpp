// trireme launch local --validate: this machine is checked before a run.
#include <gtest/gtest.h>

#include "cli/small_run.h"
#include "support/skip.h"

namespace trireme {
namespace {

class LocalValidateSlow : public SmallRun {
 protected:
  ProgramResult launch(const std::string& name, const std::string& before = "") const {
    return run_shell(fmt::format("cd {} && {} {} launch local small.yaml --ranks 1 --name {} --validate trainer.max_steps=3",
                                 folder_.path().string(), before, TRIREME_BINARY, name));
  }
  std::string status_of(const std::string& name) const {
    return run_shell(fmt::format("cd {} && {} launch --status {}", folder_.path().string(), TRIREME_BINARY, name)).output;
  }
};

TEST_F(LocalValidateSlow, AGoodMachineTrains) {
  const ProgramResult result = launch("good");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "good  1 node: no check failed"));
  EXPECT_TRUE(contains(result.output, "done    3 steps"));
  EXPECT_TRUE(fs::exists(folder_ / "runs/good/validation/validation.json"));
}

TEST_F(LocalValidateSlow, ABadMachineDoesNot) {
  if (::geteuid() != 0 || run_shell("unshare --mount true").status != 0) SKIP_FOR(machine) << "this machine gives no namespaces";
  folder_.write("small_shm.sh", "mount -t tmpfs -o size=10m shm /dev/shm && exec \"$@\"\n");
  const ProgramResult result = launch("bad", "unshare --mount --propagation private sh small_shm.sh");
  EXPECT_EQ(result.status, 2) << result.output;
  EXPECT_TRUE(contains(result.output, "/dev/shm: 10.0 MiB, expected at least 60.0 MiB"));
  EXPECT_FALSE(fs::exists(folder_ / "runs/bad/results"));
  EXPECT_TRUE(contains(status_of("bad"), "not started: bad-validation did not succeed"));
}

}  // namespace
}  // namespace trireme

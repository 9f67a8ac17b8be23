// Ranks under nsys, which a script stands in for.
#include "launch/profile_rank.h"

#include <fmt/ranges.h>

#include "base/file.h"
#include "cli/run_program.h"
#include "launch/plan_launch.h"
#include "launch/user_variables.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

class ProfileRankTest : public testing::Test {
 protected:
  // Runs `profile-rank` as a supervisor does; the stand-in records its words and runs what comes after its options.
  ProgramResult run(int rank, const std::string& path) {
    return run_program(fmt::format("launch profile-rank --ranks 0,2 --output {}/nsys --trace cuda,nvtx -- echo trained --steps 3",
                                   folder_.path().string()),
                       fmt::format("env -u OMPI_COMM_WORLD_RANK RANK={} WORLD_SIZE=4 MASTER_ADDR=localhost PATH={}", rank, path));
  }
  std::string path_with_nsys() {
    const std::string nsys =
        folder_.write("bin/nsys", "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + (folder_ / "words").string() +
                                      "\nwhile [ \"${1#-}\" != \"$1\" ] || [ \"$1\" = profile ]; do shift; done\n"
                                      "exec \"$@\"\n");
    std::filesystem::permissions(nsys, std::filesystem::perms::owner_all);
    return (folder_ / "bin").string() + ":/usr/bin:/bin";
  }

  TemporaryFolder folder_;
};

TEST_F(ProfileRankTest, WrapsChosenRanksWithTheFlagsOfTheReference) {
  const ProgramResult result = run(2, path_with_nsys());
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(result.output, "trained --steps 3\n");
  EXPECT_EQ(read_file(folder_ / "words", 1 << 20),
            "profile\n--sample=process-tree\n--cpuctxsw=process-tree\n--event-sample=system-wide\n--backtrace=lbr\n"
            "--event-sampling-interval=3\n--samples-per-backtrace=1\n--nic-metrics=true\n--capture-range=cudaProfilerApi\n"
            "--capture-range-end=stop\n--stop-on-exit=true\n--trace=cuda,nvtx\n--inherit-environment=true\n"
            "--force-overwrite=true\n--output=" +
                (folder_ / "nsys/rank-00002").string() + "\necho\ntrained\n--steps\n3\n");
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "nsys"));
}

TEST_F(ProfileRankTest, LeavesOtherRanksAsTheyAre) {
  const ProgramResult result = run(1, path_with_nsys());
  EXPECT_EQ(result.output, "trained --steps 3\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "words"));
}

TEST_F(ProfileRankTest, SaysThatNsysIsMissing) {
  const ProgramResult result = run(0, (folder_ / "bin").string());
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.output, "nsys is not on PATH; install it or set model.nsys_profile.enabled=false"));
}

// ENABLE_NSYS_PROFILE, as the launcher of the proxy models has it: steps 7 to 10 of a run of 10.
TEST(ProfileVariable, ChoosesAShortRunAndItsLastSteps) {
  ::setenv("ENABLE_NSYS_PROFILE", "true", 1);
  LaunchRequest request;
  request.overrides = {"trainer.max_steps=12"};
  apply_environment(request);
  EXPECT_TRUE(request.options.values.nsys);
  EXPECT_EQ(fmt::format("{}", fmt::join(request.overrides, " ")),
            "trainer.max_steps=12 ++model.nsys_profile.start_step=7 ++model.nsys_profile.end_step=10");
  LaunchRequest empty;
  apply_environment(empty);
  EXPECT_EQ(empty.overrides.back(), "trainer.max_steps=10");
  ::setenv("ENABLE_NSYS_PROFILE", "false", 1);
  LaunchRequest off;
  EXPECT_TRUE(apply_environment(off).empty());
  EXPECT_FALSE(off.options.values.nsys);
  ::unsetenv("ENABLE_NSYS_PROFILE");
}

}  // namespace
}  // namespace trireme

// bench/plan/recipes.py: the page of planned recipes is what the program says.
#include <gtest/gtest.h>

#include <fstream>

#include "cli/run_program.h"
#include "support/skip.h"

namespace trireme {
namespace {

ProgramResult planned_recipes(const std::string& options) {
  return run_shell("python3 -B " TRIREME_SOURCE_DIR "/bench/plan/recipes.py " + options);
}

class PlanRecipesSlow : public testing::Test {
 protected:
  void SetUp() override {
    if (run_shell("command -v python3").status != 0) SKIP_FOR(peer) << "python3 is not installed";
  }
};

// `bench/plan/recipes.py > docs/plan-recipes.md` brings it up to date.
TEST_F(PlanRecipesSlow, CommittedPageIsWhatTheProgramSays) {
  const ProgramResult page = planned_recipes("--trireme " TRIREME_BINARY);
  ASSERT_EQ(page.status, 0) << page.output;
  std::ifstream committed(TRIREME_SOURCE_DIR "/docs/plan-recipes.md");
  EXPECT_EQ(page.output, std::string(std::istreambuf_iterator<char>(committed), {}));
}

TEST_F(PlanRecipesSlow, SaysWhichCommandFailed) {
  const ProgramResult failed = planned_recipes("--trireme false");
  EXPECT_EQ(failed.status, 1);
  EXPECT_EQ(failed.output, "false recipes ended with status 1\n");
  EXPECT_EQ(planned_recipes("--trireme /none").output,
            "/none: No such file or directory; build it, or name another with --trireme\n");
}

}  // namespace
}  // namespace trireme

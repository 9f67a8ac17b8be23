// scripts/make_coverage.py: docs/coverage.md claims only what tests of the sources prove.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/run_program.h"
#include "docs/markdown.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class CoveragePage : public testing::Test {
 protected:
  void SetUp() override {
    if (run_shell("command -v python3").status != 0) SKIP_FOR(peer) << "python3 is not installed";
  }
};

// `scripts/make_coverage.py > docs/coverage.md` brings it up to date.
TEST_F(CoveragePage, IsWhatTheTableSays) {
  const ProgramResult page = run_shell("python3 -B " TRIREME_SOURCE_DIR "/scripts/make_coverage.py");
  ASSERT_EQ(page.status, 0) << page.output;
  EXPECT_EQ(page.output, text_of(TRIREME_SOURCE_DIR "/docs/coverage.md"));
}

TEST_F(CoveragePage, RefusesATestThatIsNotThere) {
  const TemporaryFolder copy;
  for (const char* folder : {"scripts", "tests/docs"}) fs::create_directories(copy / folder);
  fs::copy(TRIREME_SOURCE_DIR "/scripts/make_coverage.py", copy / "scripts/make_coverage.py");
  std::ofstream(copy / "tests/docs/capabilities.csv") << "area|systems|capability|command|tests\nA|P|flies|`fly`|Wings.Beat\n";
  const ProgramResult page = run_shell("python3 -B " + (copy / "scripts/make_coverage.py").string());
  EXPECT_EQ(page.status, 1);
  EXPECT_EQ(page.output, "tests/docs/capabilities.csv: Wings.Beat: there is no such test\n");
}

}  // namespace
}  // namespace trireme

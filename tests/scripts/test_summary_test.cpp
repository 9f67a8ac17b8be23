// The closing line of make test.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

std::string test_of(const std::string& output, const std::string& verdict) {
  return "1/5 Testing: Suite.Name\nOutput:\n" + output + "<end of output>\n" + verdict;
}

TEST(TestSummary, CountsWhatWasSkippedByLabel) {
  const TemporaryFolder folder;
  const std::string skip = "Test Pass Reason:\nSkip regular expression found in output. Regex=[\\[  SKIPPED \\]]\n";
  const std::string log =
      folder.write("log", test_of("", "Test Passed.\n") + test_of("skip mpi: no mpirun\n", skip) +
                              test_of("skip gpu: there is no GPU\n", skip) + test_of("skip gpu: this GPU has no FP8\n", skip) +
                              test_of("a test without a label\n", skip) +
                              test_of("skip peer: in the output of a test that runs\n", "Test Passed.\n") +
                              test_of("", "Test Failed.\n") + test_of("", "Test Fail Reason:\nTimeout\n"));
  EXPECT_EQ(run_shell(TRIREME_SOURCE_DIR "/scripts/test_summary " + log).output,
            "tests: 2 passed, 2 failed, 4 skipped (gpu 2, mpi 1, other 1)\n");
  EXPECT_EQ(run_shell(TRIREME_SOURCE_DIR "/scripts/test_summary " + folder.write("one", test_of("", "Test Passed.\n"))).output,
            "tests: 1 passed, 0 failed, 0 skipped\n");
}

TEST(TestSummary, EverySkipHasALabel) {
  int labelled = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TRIREME_SOURCE_DIR "/tests")) {
    const std::string extension = entry.path().extension();
    if ((extension != ".cpp" && extension != ".h") || entry.path().filename() == "skip.h") continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(text.find("GTEST_"
                        "SKIP"),
              std::string::npos)
        << entry.path() << ": say SKIP_FOR(label) of support/skip.h";
    if (text.find("SKIP_FOR(") != std::string::npos) labelled += 1;
  }
  EXPECT_GT(labelled, 20);
}

}  // namespace
}  // namespace trireme

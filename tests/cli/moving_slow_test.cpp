// Every command of docs/from is run: training on CPU ranks, launches on clusters as far as they go without one. On a real Slurm
// slurm_run_slow_test runs the two pages that need one.
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "cli/moving_pages.h"
#include "launch/helm.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// What cannot be run here, by a part of its text, and why.
const std::map<std::string, std::string> kLeftOut = {
    {"launch --fetch first", "needs a cluster; kubernetes_target_test asks a stand-in"},
    {"validate slurm ", "needs Slurm; slurm_validate_slow_test checks nodes of one"},
    {"metrics runs/gpt3-175b16", "needs the run on Slurm before it"},
    {"metrics runs/first --accelerator_type a100", "as above"},
    {"serve runs", "as above"},
    {"metrics metrics.csv", "needs the run on Kubernetes before it; the run of 70m has the same file"},
};

class Moving : public testing::TestWithParam<const char*> {
 protected:
  static bool is_left_out(const std::string& text) {
    return std::ranges::any_of(kLeftOut, [&](const auto& one) { return contains(text, one.first); });
  }
  fs::path page() const { return fs::path(TRIREME_SOURCE_DIR) / "docs/from" / GetParam(); }

  TemporaryFolder temporary_;
};

TEST_P(Moving, CommandsOfThePageWork) {
  const MovingFolder folder(temporary_.path());
  size_t run = 0;
  for (const DocumentedCommand& command : commands_of_page(page(), GetParam())) {
    if (is_left_out(command.text)) continue;
    const ProgramResult result =
        run_shell(fmt::format("{} timeout 200 sh {} < /dev/null", folder.environment(), folder.script_of(command)));
    EXPECT_EQ(result.status, 0) << command.place << ": " << command.text << "\n" << result.output;
    ++run;
  }
  EXPECT_GE(run, 3U);
}

// "At most twelve": what a reader types to get to the number, before the first other heading.
TEST_P(Moving, TheNumberIsTwelveCommandsAway) {
  std::istringstream text(read_file(page(), 1 << 20));
  size_t commands = 0;
  bool in_block = false, continues = false, has_had_block = false;
  for (std::string line; std::getline(text, line) && !(has_had_block && !in_block);) {
    if (line.starts_with("```")) {
      in_block = !in_block, has_had_block = true;
      continue;
    }
    if (in_block && !continues) ++commands;
    continues = in_block && line.ends_with('\\');
  }
  EXPECT_GE(commands, 3U);
  EXPECT_LE(commands, 12U);
}

std::vector<const char*> pages() { return {"gpt3-proxy.md", "gpu-recipes.md", "parallelcluster.md", "litgpt.md", "azure.md"}; }

INSTANTIATE_TEST_SUITE_P(Pages, Moving, testing::ValuesIn(pages()), [](const auto& one) {
  std::string name = one.param;
  std::ranges::replace(name, '-', '_');
  return name.substr(0, name.find('.'));
});

// Commands in a block that names a shell are those of Helm, with the value files of the document's users.
TEST(MovingHelm, TakesTheirInstallation) {
  const TemporaryFolder temporary;
  std::istringstream text(read_file(fs::path(TRIREME_SOURCE_DIR) / "docs/from/gpu-recipes.md", 1 << 20));
  std::string command;
  bool in_block = false;
  for (std::string line; std::getline(text, line);) {
    if (line == "```" && in_block) break;
    if (in_block) command += line.ends_with('\\') ? line.substr(0, line.size() - 1) : line + "\n";
    in_block |= line == "```sh";
  }
  NEEDS_HELM();
  const MovingFolder folder(temporary.path());
  fs::copy(fs::path(TRIREME_SOURCE_DIR) / "tests/launch/chart/gpu-recipes-job.yaml", folder.path() / "values.yaml");
  ASSERT_TRUE(command.starts_with("helm install ")) << command;
  command.replace(0, 12, "helm template");
  const std::string program = fmt::format("PATH={}:$PATH HELM_CACHE_HOME={}", helm_folder(), folder.path().string());
  const ProgramResult result =
      run_shell(fmt::format("{} {} sh {}", folder.environment(), program, folder.script_of({"", command, ""})));
  EXPECT_EQ(result.status, 0) << command << result.output;
  EXPECT_TRUE(contains(result.output, "completionMode: Indexed"));
  EXPECT_TRUE(contains(result.output, "trainer.max_steps=100"));
}

}  // namespace
}  // namespace trireme

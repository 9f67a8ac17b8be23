// The pages of docs/from that need Slurm, on a real one of this machine.
#include <gtest/gtest.h>

#include "cli/moving_pages.h"
#include "launch/slurm_cluster.h"
#include "support/skip.h"

namespace trireme {
namespace {

class SlurmPagesSlow : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = SlurmCluster::missing(); !missing.empty()) SKIP_FOR(machine) << missing;
  }

  static void run_page(int nodes, const std::string& page) {
    const SlurmCluster cluster(nodes);
    const MovingFolder folder(cluster.work() / "page");
    for (const DocumentedCommand& command : commands_of_page(TRIREME_SOURCE_DIR "/docs/from/" + page, page)) {
      const ProgramResult result =
          cluster.run(fmt::format("{} timeout 300 sh {}", folder.environment(), folder.script_of(command)));
      EXPECT_EQ(result.status, 0) << command.place << ": " << command.text << "\n" << result.output;
    }
  }
};

TEST_F(SlurmPagesSlow, OfAzureUsersWork) { run_page(2, "azure.md"); }

TEST_F(SlurmPagesSlow, OfAwsUsersWork) { run_page(16, "parallelcluster.md"); }

}  // namespace
}  // namespace trireme

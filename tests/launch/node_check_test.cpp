// What the checks of an allocation say about its nodes.
#include "launch/slurm/node_check.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

class NodeCheckTest : public testing::Test {
 protected:
  NodeCheck check() const {
    return {.nodes = {"n1", "n2", "n3"},
            .srun = {"srun", "--nodes=2", "--ntasks=16", "--ntasks-per-node=8", "--mpi=none"},
            .program = "/apps/trireme",
            .run_folder = "/results/run",
            .folder = folder_.path()};
  }
  NodeVerdict verdict_of(const std::string& result) const {
    folder_.write("validation.json", result);
    return read_node_check(check());
  }
  static std::string finding(const std::string& node, const std::string& what, const std::string& severity = "failure") {
    return fmt::format(R"({{"severity": "{}", "check": "x", "node": "{}", "what": "{}", "seen": "1", "expected": "2"}})",
                       severity, node, what);
  }
  static std::string bad(const std::string& leave_out, const std::vector<std::string>& findings) {
    return fmt::format(R"({{"verdict": "bad", "leave_out": {{"nodes": [{}]}}, "findings": [{}]}})", leave_out,
                       fmt::join(findings, ","));
  }

  TemporaryFolder folder_;
};

TEST_F(NodeCheckTest, AllNodesOfTheAllocationAreChecked) {
  EXPECT_EQ(fmt::format("{}", fmt::join(check_command(check()), " ")),
            fmt::format("srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --mpi=none --nodes=3 --ntasks=24 --nodelist=n1,n2,n3 "
                        "/apps/trireme validate --quick --results /results/run --output {}",
                        folder_.path().string()));
}

TEST_F(NodeCheckTest, GoodNodesAreKept) {
  const NodeVerdict verdict = verdict_of(R"({"verdict": "good", "leave_out": {"nodes": []}, "findings": []})");
  EXPECT_TRUE(verdict.bad.empty());
  EXPECT_EQ(verdict.failure, "");
}

TEST_F(NodeCheckTest, BadNodesAreNamedWithTheReason) {
  const NodeVerdict verdict = verdict_of(bad(
      R"("n2.cluster.example.com", "n3")", {finding("n2.cluster.example.com", "kernel", "warning"),
                                            finding("n2.cluster.example.com", "GPUs"), finding("n1 - n3", "the link is slow")}));
  ASSERT_EQ(verdict.bad.size(), 2U);
  EXPECT_EQ(verdict.bad[0].node, "n2");
  EXPECT_EQ(verdict.bad[0].reason, "GPUs: 1, expected 2");
  EXPECT_EQ(verdict.bad[1].node, "n3");
  EXPECT_EQ(verdict.bad[1].reason, "link n1 - n3: the link is slow: 1, expected 2");
  EXPECT_EQ(verdict.failure, "");
}

TEST_F(NodeCheckTest, AFaultOfAllNodesIsAFailure) {
  EXPECT_EQ(verdict_of(bad("", {finding("", "busbw of all_reduce")})).failure, "busbw of all_reduce: 1, expected 2");
  // A host that is not a node of the job.
  EXPECT_EQ(verdict_of(bad(R"("login")", {finding("login", "GPUs")})).failure, "GPUs: 1, expected 2");
}

TEST_F(NodeCheckTest, ADamagedResultIsAFailure) {
  for (const char* text :
       {"", "{", "[]", "null", R"({"verdict": "bad"})", R"({"verdict": "bad", "findings": 3, "leave_out": []})"})
    EXPECT_THROW(verdict_of(text), Failure) << text;
}

}  // namespace
}  // namespace trireme

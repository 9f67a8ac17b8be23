// The verdict of a validation, and what leaves bad nodes out.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "validate/report.h"

namespace trireme {
namespace {

ValidationReport example() {
  ValidationReport report;
  for (int node = 0; node < 4; ++node)
    report.nodes.push_back({{fmt::format("h{}", node + 1), {{"cores", "2"}}}, {2 * node, 2 * node + 1}});
  return report;
}

Finding failure_at(const std::string& node) { return {FindingKind::failure, "compute", node, "rank 4: GEMM", "1", "2", "do"}; }

TEST(ValidationReports, WithoutFailuresAreGood) {
  ValidationReport report = example();
  report.findings = {{FindingKind::warning, "kernel", "h2", "kernel", "6.2", "6.1", ""}};
  EXPECT_TRUE(report.is_good());
  EXPECT_NE(text_of(report).find("good  4 nodes: no check failed, 1 warning\n"), std::string::npos);
  EXPECT_TRUE(leave_out(report).nodes.empty());
  EXPECT_EQ(json_of(report).at("verdict"), "good");
}

TEST(ValidationReports, LeaveBadNodesOut) {
  ValidationReport report = example();
  report.findings = {failure_at("h3"), failure_at("h3")};
  const LeaveOut out = leave_out(report);
  EXPECT_EQ(out.nodes, std::vector<std::string>{"h3"});
  EXPECT_EQ(out.slurm, "--exclude=h3");
  EXPECT_EQ(out.mpirun, "--host h1:2,h2:2,h4:2");
  EXPECT_EQ(out.kubernetes, R"({"key":"kubernetes.io/hostname","operator":"NotIn","values":["h3"]})");
  EXPECT_NE(text_of(report).find("bad  1 of 4 nodes: h3\nslurm  --exclude=h3\n"), std::string::npos);
  const auto json = json_of(report);
  EXPECT_EQ(json.at("bad_nodes").dump(), R"(["h3"])");
  EXPECT_EQ(json.at("leave_out").at("slurm"), "--exclude=h3");
  EXPECT_EQ(json.at("findings").size(), 2u);
}

TEST(ValidationReports, LeaveOneEndOfABadLinkOut) {
  ValidationReport report = example();
  report.findings = {failure_at("h1 - h3"), failure_at("h3 - h4")};
  EXPECT_TRUE(report.bad_nodes().empty());
  EXPECT_EQ(leave_out(report).nodes, std::vector<std::string>{"h3"}) << "one node may serve for several links";
}

TEST(ValidationReports, AFaultOfAllHasNoNodeToLeaveOut) {
  ValidationReport report = example();
  report.findings = {failure_at("")};
  EXPECT_FALSE(report.is_good());
  EXPECT_NE(text_of(report).find("bad  4 nodes: no node to leave out"), std::string::npos);
}

TEST(Expectations, OfAPlatformFollowItsFile) {
  Platform platform;
  platform.gpu.bf16_tflops = 1000, platform.gpu.bf16_share = 0.8, platform.gpu.memory_bandwidth = 4000,
  platform.gpu.copy_share = 0.9;
  platform.nvlink_bandwidth = 450, platform.network_bandwidth = 50;
  const Expectation inside = expectation_of(platform, {.nodes = 1, .ranks_per_node = 8});
  EXPECT_DOUBLE_EQ(inside.flops, 800e12);
  EXPECT_DOUBLE_EQ(inside.bytes, 3600e9);
  EXPECT_DOUBLE_EQ(inside.pair, 360e9);
  const Expectation between = expectation_of(platform, {.nodes = 4, .ranks_per_node = 8});
  EXPECT_DOUBLE_EQ(between.pair, 320e9);
  EXPECT_DOUBLE_EQ(between.bus, 320e9);
}

}  // namespace
}  // namespace trireme

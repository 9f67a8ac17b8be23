// The facts of a node, and what is said of nodes that differ.
#include "validate/inventory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/temporary_folder.h"
#include "validate/inventory_checks.h"

namespace trireme {
namespace {

TEST(Inventory, ReadsTheTree) {
  const TemporaryFolder root;
  root.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9V84\n");
  root.write("proc/meminfo", "MemTotal:       2097152 kB\nHugePages_Total:       8\n");
  for (const char* cpu : {"cpu0", "cpu1", "cpu10"})
    root.write(fmt::format("sys/devices/system/cpu/{}/cpufreq/scaling_governor", cpu), "performance\n");
  root.write("sys/devices/system/cpu/cpufreq/policy0", "");
  root.write("sys/devices/system/node/node0/cpulist", "0-1\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  root.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  root.write("sys/class/infiniband/mlx5_1/ports/1/rate", "10 Gb/sec\n");
  const Facts facts = read_inventory(root.path());
  EXPECT_EQ(facts.at("cpu"), "AMD EPYC 9V84");
  EXPECT_EQ(facts.at("cores"), "3");
  EXPECT_EQ(facts.at("numa_nodes"), "1");
  EXPECT_EQ(facts.at("memory_gib"), "2.0");
  EXPECT_EQ(facts.at("governor"), "performance");
  EXPECT_EQ(facts.at("infiniband_ports"), "2");
  EXPECT_EQ(facts.at("infiniband_inactive"), "mlx5_1:1 1: DOWN");
  EXPECT_EQ(facts.at("dev_infiniband"), "no");
  EXPECT_TRUE(facts.contains("kernel") && facts.contains("nofile") && facts.contains("name_resolves"));
}

TEST(Inventory, OfAnEmptyTreeHasNoHardware) {
  const TemporaryFolder root;
  const Facts facts = read_inventory(root.path());
  EXPECT_FALSE(facts.contains("cpu") || facts.contains("cores") || facts.contains("memory_gib"));
}

TEST(Inventory, ReadsGpus) {
  const Facts facts = gpu_facts(
      "NVIDIA H200, 570.86, 143771, 0, 0x0000000000000000, 1980, 345, 16, 31\n"
      "NVIDIA H200, 570.86, 143771, 3, 0x0000000000000048, 1980, 345, 16, 88\n"
      "not a row\n");
  EXPECT_EQ(facts.at("gpus"), "2");
  EXPECT_EQ(facts.at("gpu_driver"), "570.86");
  EXPECT_EQ(facts.at("gpu_ecc_errors"), "GPU 1: 3");
  EXPECT_EQ(facts.at("gpu_throttled"), "GPU 1: 0x0000000000000048 at 345 MHz, 88 C");
  EXPECT_TRUE(gpu_facts("No devices were found\n").empty());
  EXPECT_FALSE(gpu_facts("NVIDIA H200, 570.86, 143771, [N/A], Active, 1980, 345, 16, 31\n").contains("gpu_ecc_errors"));
}

const Facts kGood{{"cores", "96"},           {"gpus", "8"},           {"memory_gib", "1800.0"}, {"nofile", "65536"},
                  {"shm_bytes", "2e10"},     {"kernel", "6.1"},       {"name_resolves", "yes"}, {"clock_skew", "0.000"},
                  {"infiniband_ports", "8"}, {"memlock", "unlimited"}};

std::vector<Finding> findings_with(const std::string& fact, const std::string& value) {
  std::vector<NodeFacts> nodes{{"n1", kGood}, {"n2", kGood}, {"n3", kGood}};
  if (value.empty())
    nodes[1].facts.erase(fact);
  else
    nodes[1].facts[fact] = value;
  return check_inventory(nodes);
}

TEST(InventoryChecks, EqualNodesAreGood) { EXPECT_TRUE(check_inventory({{"n1", kGood}, {"n2", kGood}}).empty()); }

TEST(InventoryChecks, NameTheNodeThatDiffers) {
  struct Case {
    const char *fact, *value, *seen, *expected;
    FindingKind kind;
  };
  for (const Case& one :
       {Case{"gpus", "7", "7", "8", FindingKind::failure}, Case{"gpus", "", "nothing", "8", FindingKind::failure},
        Case{"memory_gib", "1700.0", "1700.0", "1800.0", FindingKind::failure},
        Case{"topology", "8 GPUs, b", "8 GPUs, b", "nothing", FindingKind::warning},
        Case{"kernel", "6.2", "6.2", "6.1", FindingKind::warning},
        Case{"nofile", "256", "256", "at least 1024", FindingKind::failure},
        Case{"shm_bytes", "10485760", "10.0 MiB", "at least 60.0 MiB", FindingKind::failure},
        Case{"shm_bytes", "104857600", "100.0 MiB", "at least 1.0 GiB", FindingKind::warning},
        Case{"memlock", "65536", "64.0 KiB", "at least 64.0 MiB", FindingKind::failure},
        Case{"clock_skew", "-300.000", "-300", "at most 0.5", FindingKind::warning},
        Case{"gpu_ecc_errors", "GPU 1: 3", "GPU 1: 3", "none", FindingKind::failure},
        Case{"name_resolves", "no", "no", "yes", FindingKind::failure}}) {
    const std::vector<Finding> findings = findings_with(one.fact, one.value);
    ASSERT_EQ(findings.size(), 1u) << one.fact;
    EXPECT_EQ(findings.front().node, "n2");
    EXPECT_EQ(findings.front().check, one.fact);
    EXPECT_EQ(findings.front().seen, one.seen);
    EXPECT_EQ(findings.front().expected, one.expected);
    EXPECT_EQ(findings.front().kind, one.kind);
    EXPECT_FALSE(findings.front().advice.empty());
  }
}

TEST(InventoryChecks, SmallDifferencesOfMemoryAreUsual) { EXPECT_TRUE(findings_with("memory_gib", "1790.0").empty()); }

TEST(InventoryChecks, LockedMemoryMattersForInfinibandOnly) {
  Facts facts = kGood;
  facts["memlock"] = "65536", facts["infiniband_ports"] = "0";
  EXPECT_TRUE(check_inventory({{"n1", facts}}).empty());
}

TEST(InventoryChecks, AFindingIsOneLine) {
  EXPECT_EQ(text_of(findings_with("gpus", "7").front()),
            "FAIL  n2: GPUs: 7, expected 8; look for Xid lines in dmesg and power the node off and on");
}

}  // namespace
}  // namespace trireme

// trireme validate slurm on a real Slurm cluster of this machine.
#include <gtest/gtest.h>

#include "cli/documented_commands.h"
#include "launch/slurm_cluster.h"
#include "support/skip.h"

namespace trireme {
namespace {

TEST(SlurmValidateSlow, ChecksTheNodesOfAPartition) {
  if (const std::string missing = SlurmCluster::missing(); !missing.empty()) SKIP_FOR(machine) << missing;
  const SlurmCluster cluster(3);
  // A rank per node, over TCP. Speeds of three ranks on a few cores differ, so the verdict may be either.
  const ProgramResult all =
      cluster.trireme("validate slurm --nodes 2 --nccl --quick --max-bytes 4K --ranks-per-node 1 --output first");
  EXPECT_TRUE(all.status == 0 || all.status == 2) << all.output;
  EXPECT_TRUE(contains(all.output, "# all_reduce over 2 ranks")) << all.output;
  EXPECT_TRUE(contains(all.output, "# Out of bounds values : 0 OK")) << all.output;
  const auto result = nlohmann::json::parse(read_file(cluster.work() / "first/validation.json", 1 << 24));
  EXPECT_EQ(result.at("nodes").size(), 2u);
  EXPECT_TRUE(contains(read_file(cluster.work() / "first/rank-00000.log", 1 << 24), "# all_reduce over 2 ranks"));

  const ProgramResult dry = cluster.trireme("validate slurm --ranks-per-node 1 --dcgm --dry-run");
  EXPECT_EQ(dry.status, 0);
  EXPECT_TRUE(contains(dry.output, "--nodes=3: all usable nodes of partition")) << dry.output;
  EXPECT_TRUE(contains(dry.output, " validate --dcgm --dcgm-level 1 --output ")) << dry.output;
  EXPECT_FALSE(std::filesystem::exists(cluster.work() / "results"));

  // NCCL's file, of a node on paper.
  cluster.folder().write("root/sys/bus/pci/devices/0001:00:00.0/class", "0x030200\n");
  cluster.folder().write("root/sys/bus/pci/devices/0001:00:00.0/vendor", "0x10de\n");
  const ProgramResult topology = cluster.run("TRIREME_SYSTEM_ROOT=$PWD/root " TRIREME_BINARY
                                             " validate slurm --nodes 2 --ranks-per-node 1 --dcgm --topology topo.xml");
  EXPECT_EQ(topology.status, 0) << topology.output;
  EXPECT_TRUE(contains(topology.output, "topo.xml: 1 GPU, 0 network cards, 1 virtual PCI switch; NCCL_TOPO_FILE="));
  EXPECT_TRUE(contains(read_file(cluster.work() / "topo.xml", 1 << 16), "<pci busid=\"0001:00:00.0\" class=\"0x030200\""));

  const ProgramResult missing = cluster.trireme("validate slurm --partition gpus");
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(contains(missing.output, "trireme: partition=gpus: cluster ")) << missing.output;
  const ProgramResult many = cluster.trireme("validate slurm --nodes 9");
  EXPECT_EQ(many.status, 1);
  EXPECT_TRUE(contains(many.output, "trireme: nodes=9: partition ")) << many.output;
  const ProgramResult unknown = cluster.trireme("validate slurm --nodelist n7 --ranks-per-node 1 --nccl");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_TRUE(contains(unknown.output, "trireme: Slurm did not run the checks: ")) << unknown.output;
}

}  // namespace
}  // namespace trireme

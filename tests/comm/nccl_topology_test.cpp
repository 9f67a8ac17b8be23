// NCCL's file of a machine, from trees like /sys.
#include "comm/nccl_topology.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "comm/nccl_session.h"
#include "support/fake_device.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A machine on paper.
class NcclTopologyTest : public testing::Test {
 protected:
  struct Pci {
    std::string kind;  // port, gpu, card, net or nvme
    std::string speed = "32.0 GT/s PCIe", width = "16";
    int numa = 0;
  };

  // `chain`: the bus ids from the root to the device.
  void add(const std::vector<std::string>& chain, const Pci& device) const {
    std::string folder = "sys/devices/pci" + chain.front().substr(0, 7);
    for (const std::string& id : chain) folder += "/" + id;
    const auto write = [&](const char* name, const std::string& text) { root_.write(folder + "/" + name, text + "\n"); };
    const std::string device_class = device.kind == "gpu"    ? "0x030200"
                                     : device.kind == "card" ? "0x020700"
                                     : device.kind == "net"  ? "0x020000"
                                     : device.kind == "nvme" ? "0x010802"
                                                             : "0x060400";
    write("class", device_class);
    write("vendor", device.kind == "gpu" ? "0x10de" : "0x15b3");
    write("device", "0x2330");
    write("numa_node", std::to_string(device.numa));
    if (!device.speed.empty()) write("max_link_speed", device.speed);
    if (!device.width.empty()) write("max_link_width", device.width);
    if (device.kind == "net") fs::create_directories(root_.path() / folder / "infiniband/mlx5_an0");
    fs::create_directories(root_.path() / "sys/bus/pci/devices");
    fs::create_directory_symlink("../../../../" + folder, root_.path() / "sys/bus/pci/devices" / chain.back());
  }

  void add_processors(int count) const {
    root_.write("proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon\n");
    for (int i = 0; i < count; ++i)
      root_.write(fmt::format("sys/devices/system/node/node{}/cpumap", i),
                  i == 0 ? "00000000,ffffffff\n" : "ffffffff,00000000\n");
  }

  // Two sockets, on each two switches with two GPUs and two cards, as in machines with eight GPUs.
  void add_two_sockets() const {
    add_processors(2);
    for (int socket = 0; socket < 2; ++socket)
      for (int one = 0; one < 2; ++one) {
        const int bus = 0x10 + 0x40 * (2 * socket + one) % 0x100;
        const auto id = [&](int further, int slot) { return fmt::format("{:04x}:{:02x}:{:02x}.0", socket, bus + further, slot); };
        const Pci bridge{.kind = "port", .numa = socket};
        add({id(0, 1)}, bridge);
        add({id(0, 1), id(1, 0)}, bridge);
        for (int slot = 0; slot < 4; ++slot) {
          add({id(0, 1), id(1, 0), id(2, slot)}, bridge);
          // The second GPU of a switch trained at half of its lanes' speed.
          const std::string speed = slot == 1 ? "16.0 GT/s PCIe" : "32.0 GT/s PCIe";
          add({id(0, 1), id(1, 0), id(2, slot), id(3 + slot, 0)},
              {.kind = slot < 2 ? "gpu" : "card", .speed = speed, .numa = socket});
        }
      }
    add({"0000:00:01.0"}, {.kind = "port"});
    add({"0000:00:01.0", "0000:01:00.0"}, {.kind = "nvme"});
    add({"0000:00:02.0"}, {.kind = "port", .speed = "8.0 GT/s PCIe", .width = "8"});
    add({"0000:00:02.0", "0000:02:00.0"}, {.kind = "net"});
  }

  // A virtual machine: every device is the root of a PCI domain of its own.
  void add_virtual(int numa_nodes, int gpus_of_node, int cards_of_node) const {
    add_processors(numa_nodes);
    for (int numa = 0; numa < numa_nodes; ++numa) {
      for (int i = 0; i < gpus_of_node; ++i)
        add({fmt::format("{:04x}:00:00.0", 1 + numa * gpus_of_node + i)},
            {.kind = "gpu", .speed = "Unknown", .width = "255", .numa = numa});
      for (int i = 0; i < cards_of_node; ++i)
        add({fmt::format("{:04x}:00:00.0", 0x101 + numa * cards_of_node + i)},
            {.kind = "card", .speed = "", .width = "", .numa = numa});
    }
    add({"f000:00:00.0"}, {.kind = "net", .speed = "Unknown"});
  }

  NcclTopology read() const { return read_nccl_topology(root_.path()); }

  // The tags of the file with their ids only, indented.
  static std::string outline_of(const std::string& xml) {
    std::string outline;
    for (size_t begin = 0; begin < xml.size();) {
      const size_t end = xml.find('\n', begin);
      const std::string line = xml.substr(begin, end - begin);
      begin = end + 1;
      for (const char* name : {" numaid=\"", " busid=\""})
        if (const size_t at = line.find(name); at != std::string::npos) {
          const size_t value = at + std::string_view(name).size();
          outline += line.substr(0, line.find('<')) + line.substr(value, line.find('"', value) - value) + "\n";
        }
    }
    return outline;
  }
  static std::string line_with(const std::string& xml, const std::string& part) {
    const size_t at = xml.find(part);
    if (at == std::string::npos) return "no " + part;
    const size_t begin = xml.rfind('<', at);
    return xml.substr(begin, xml.find('\n', at) - begin);
  }

  TemporaryFolder root_;
};

TEST_F(NcclTopologyTest, DevicesHangBelowTheirSwitches) {
  add_two_sockets();
  const NcclTopology topology = read();
  EXPECT_EQ(topology.summary(), "8 GPUs, 9 network cards, 4 PCI switches");
  EXPECT_EQ(outline_of(topology.xml),
            "  0\n"
            "    0000:02:00.0\n"
            "    0000:11:00.0\n"
            "      0000:13:00.0\n      0000:14:00.0\n      0000:15:00.0\n      0000:16:00.0\n"
            "    0000:51:00.0\n"
            "      0000:53:00.0\n      0000:54:00.0\n      0000:55:00.0\n      0000:56:00.0\n"
            "  1\n"
            "    0001:91:00.0\n"
            "      0001:93:00.0\n      0001:94:00.0\n      0001:95:00.0\n      0001:96:00.0\n"
            "    0001:d1:00.0\n"
            "      0001:d3:00.0\n      0001:d4:00.0\n      0001:d5:00.0\n      0001:d6:00.0\n");
}

TEST_F(NcclTopologyTest, AttributesAreThoseOfTheKernel) {
  add_two_sockets();
  const std::string xml = read().xml;
  EXPECT_TRUE(xml.starts_with("<system version=\"1\">\n")) << xml;
  EXPECT_TRUE(xml.ends_with("</system>\n")) << xml;
  const std::string processor = line_with(xml, "numaid=\"1\"");
  for (const char* part :
       {"affinity=\"ffffffff,00000000\"", "vendor=\"GenuineIntel\"", "familyid=\"6\"", "modelid=\"143\"", "arch=\""})
    EXPECT_NE(processor.find(part), std::string::npos) << processor;
  EXPECT_EQ(line_with(xml, "0000:13:00.0"),
            "<pci busid=\"0000:13:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\"/>");
  EXPECT_NE(line_with(xml, "0000:14:00.0").find("link_speed=\"16.0 GT/s PCIe\""), std::string::npos);
  // The port above the card is slower and narrower than the card.
  EXPECT_NE(line_with(xml, "0000:02:00.0").find("link_speed=\"8.0 GT/s PCIe\" link_width=\"8\""), std::string::npos);
  EXPECT_NE(line_with(xml, "0000:11:00.0").find("class=\"0x060400\""), std::string::npos);
}

// As the file for machines with two GPUs and two cards per NUMA node.
TEST_F(NcclTopologyTest, AVirtualMachineGetsASwitchPerNumaNode) {
  add_virtual(4, 2, 2);
  const NcclTopology topology = read();
  EXPECT_EQ(topology.summary(), "8 GPUs, 9 network cards, 4 virtual PCI switches");
  EXPECT_TRUE(
      outline_of(topology.xml)
          .starts_with("  0\n    f000:00:00.0\n    ffff:ff:01.0\n      0001:00:00.0\n      0002:00:00.0\n      0101:00:00.0\n"
                       "      0102:00:00.0\n  1\n    ffff:ff:02.0\n      0003:00:00.0\n"))
      << topology.xml;
  EXPECT_EQ(line_with(topology.xml, "ffff:ff:04.0"),
            "<pci busid=\"ffff:ff:04.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">");
  EXPECT_NE(line_with(topology.xml, "0001:00:00.0").find("link_speed=\"16.0 GT/s PCIe\" link_width=\"16\""), std::string::npos);
}

TEST_F(NcclTopologyTest, ManyGpusOfANodeHaveASwitchEach) {
  add_virtual(2, 4, 4);
  EXPECT_EQ(read().summary(), "8 GPUs, 9 network cards, 8 virtual PCI switches");
  EXPECT_TRUE(outline_of(read().xml)
                  .starts_with("  0\n    f000:00:00.0\n    ffff:ff:01.0\n      0001:00:00.0\n      0101:00:00.0\n"
                               "    ffff:ff:02.0\n      0002:00:00.0\n      0102:00:00.0\n"))
      << read().xml;
}

TEST_F(NcclTopologyTest, NothingAndRubbishAreNoTopology) {
  EXPECT_EQ(read().xml, "<system version=\"1\">\n</system>\n");
  EXPECT_EQ(read().summary(), "0 GPUs, 0 network cards, 0 PCI switches");
  fs::create_directories(root_.path() / "sys/bus/pci/devices");
  fs::create_directory_symlink("../../../devices/nowhere", root_.path() / "sys/bus/pci/devices/0000:01:00.0");
  add({"0000:02:00.0"}, {.kind = "gpu", .speed = "\"/><x y=\"", .width = "-3", .numa = -1});
  const std::string xml = read().xml;
  EXPECT_NE(line_with(xml, "0000:02:00.0").find("link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"/>"), std::string::npos) << xml;
  EXPECT_NE(xml.find("<cpu numaid=\"0\""), std::string::npos) << xml;
}

class NcclTopologyFileTest : public NcclTopologyTest {
 protected:
  ~NcclTopologyFileTest() override {
    for (const char* name : {"NCCL_TOPO_FILE", "TRIREME_SYSTEM_ROOT"}) ::unsetenv(name);
  }
  static std::string named() {
    const char* path = std::getenv("NCCL_TOPO_FILE");
    return path == nullptr ? "" : path;
  }
};

TEST_F(NcclTopologyFileTest, StandsInForAMissingOne) {
  add_virtual(4, 2, 2);
  const std::string missing = (root_ / "platform-topo.xml").string();
  ::setenv("NCCL_TOPO_FILE", missing.c_str(), 1);
  std::string made;
  {
    const NcclTopologyFile file(root_.path());
    made = named();
    EXPECT_NE(made, missing);
    EXPECT_EQ(read_file(made, 1 << 20), read().xml);
    EXPECT_EQ(file.description(),
              fmt::format("NCCL_TOPO_FILE={} is missing, so NCCL reads what /sys has: 8 GPUs, 9 network cards, 4 "
                          "virtual PCI switches",
                          missing));
  }
  EXPECT_FALSE(fs::exists(made));
  EXPECT_EQ(named(), missing);
}

TEST_F(NcclTopologyFileTest, GroupsOfGpusUseIt) {
  add_virtual(1, 2, 2);
  ::setenv("NCCL_TOPO_FILE", "/nowhere/topo.xml", 1);
  ::setenv("TRIREME_SYSTEM_ROOT", root_.path().c_str(), 1);
  Progress progress{{.timeout = std::chrono::seconds(1)}};
  FakeDevice device;
  try {
    const NcclSession session(device, device, progress);
    EXPECT_NE(session.description().find("; NCCL_TOPO_FILE=/nowhere/topo.xml is missing, so NCCL reads what /sys has: 2 GPUs"),
              std::string::npos)
        << session.description();
    EXPECT_TRUE(fs::exists(named())) << named();
  } catch (const UserError& error) {
    SKIP_FOR(gpu) << error.what();
  }
}

TEST_F(NcclTopologyFileTest, LeavesEverythingElseAlone) {
  add_virtual(1, 2, 2);
  ::unsetenv("NCCL_TOPO_FILE");
  EXPECT_EQ(NcclTopologyFile(root_.path()).description(), "");
  const std::string own = root_.write("own.xml", "<system version=\"1\">\n</system>\n");
  ::setenv("NCCL_TOPO_FILE", own.c_str(), 1);
  {
    const NcclTopologyFile file(root_.path());
    EXPECT_EQ(file.description(), "");
    EXPECT_EQ(named(), own);
  }
  EXPECT_TRUE(fs::exists(own));
  const TemporaryFolder without_gpus;
  ::setenv("NCCL_TOPO_FILE", "/nowhere/topo.xml", 1);
  EXPECT_EQ(NcclTopologyFile(without_gpus.path()).description(), "");
  EXPECT_EQ(named(), "/nowhere/topo.xml");
}

}  // namespace
}  // namespace trireme

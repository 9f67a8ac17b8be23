// What NCCL's log says, and the library itself: neither needs a GPU.
#include "comm/nccl_log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "comm/nccl_library.h"
#include "support/skip.h"

namespace trireme {
namespace {

NcclFacts facts_of_network(const std::string& network) { return {.network = network, .plugin = "", .transports = {}}; }

Environment environment_with(const std::string& name, const char* value) {
  return [=](const char* asked) { return asked == name ? value : nullptr; };
}

TEST(NcclLog, NamesNetworkAndTransports) {
  const NcclFacts facts = parse_nccl_log(
      "node7:412:412 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n"
      "node7:412:455 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.7<0>\n"
      "node7:412:455 [0] NCCL INFO Using network Socket\n"
      "node7:412:455 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
      "node7:412:455 [0] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [send] via NET/Socket/0\n"
      "node7:412:455 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
      "node7:412:455 [0] NCCL INFO Connected all rings");
  EXPECT_EQ(facts.network, "Socket");
  EXPECT_EQ(facts.plugin, "");
  EXPECT_EQ(facts.transports, (std::set<std::string>{"NET/Socket", "P2P", "SHM"}));
}

TEST(NcclLog, NamesAPluginWhoseNameHasSpaces) {
  const NcclFacts facts = parse_nccl_log(
      "a:1:1 [0] NCCL INFO NET/Plugin: Loaded net plugin AWS Libfabric (v8)\n"
      "a:1:1 [0] NCCL INFO Using network AWS Libfabric\r\n"
      "a:1:1 [0] NCCL INFO Channel 00/0 : 1[7] -> 0[0] [receive] via NET/AWS Libfabric/0/GDRDMA(PCI)\n");
  EXPECT_EQ(facts.network, "AWS Libfabric");
  EXPECT_EQ(facts.plugin, "AWS Libfabric");
  EXPECT_EQ(facts.transports, (std::set<std::string>{"NET/AWS Libfabric"}));
}

TEST(NcclLog, ReadsTheWordsOfLaterVersions) {
  const NcclFacts facts = parse_nccl_log("a:1:1 [0] NCCL INFO Assigned NET plugin IB to comm\n");
  EXPECT_EQ(facts.network, "IB");
}

TEST(NcclLog, OfNothingIsNothing) {
  EXPECT_EQ(parse_nccl_log("").network, "");
  EXPECT_TRUE(parse_nccl_log("Channel\nvia\n via \n").transports.empty());
}

// Two runs of one process have one log; each finds in it what was added in its time.
TEST(NcclLog, IsOneFileInAProcess) {
  if (std::getenv("NCCL_DEBUG") != nullptr) SKIP_FOR(machine) << "NCCL_DEBUG is set";
  NcclLog first;
  ASSERT_TRUE(first.is_known());
  const auto write = [](const std::string& line) {
    std::ofstream(std::getenv("NCCL_DEBUG_FILE"), std::ios::app) << line << '\n';
  };
  write("a:1:1 [0] NCCL INFO Using network IB");
  EXPECT_EQ(first.new_facts().network, "IB");
  EXPECT_EQ(first.new_facts().network, "");
  NcclLog second;
  ASSERT_TRUE(second.is_known());
  write("a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM");
  EXPECT_EQ(second.new_facts().transports, (std::set<std::string>{"P2P"}));
  EXPECT_EQ(second.facts().network, "IB");
}

TEST(NcclNetwork, AskedForAndNotTakenIsOneLine) {
  const std::string line = network_complaint(facts_of_network("Socket"), environment_with("NCCL_NET_PLUGIN", "aws-ofi"));
  EXPECT_NE(line.find("NCCL_NET_PLUGIN=aws-ofi asks for a network plugin, and NCCL fell back to sockets"), std::string::npos);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(network_complaint(facts_of_network("Socket"), environment_with("NCCL_NET", "IB")), "");
}

TEST(NcclNetwork, TakenOrNotAskedForOrNotKnownIsNone) {
  EXPECT_EQ(network_complaint(facts_of_network("IB"), environment_with("NCCL_NET", "IB")), "");
  EXPECT_EQ(network_complaint(facts_of_network("Socket"), environment_with("NCCL_NET", "Socket")), "");
  EXPECT_EQ(network_complaint(facts_of_network("Socket"), environment_with("NCCL_NET_PLUGIN", "none")), "");
  EXPECT_EQ(network_complaint(facts_of_network("Socket"), environment_with("PATH", "/bin")), "");
  EXPECT_EQ(network_complaint(facts_of_network(""), environment_with("NCCL_NET", "IB")), "");
}

TEST(NcclLibraryTest, SaysWhereItIsAndItsVersion) {
  try {
    const NcclLibrary& library = NcclLibrary::load();
    EXPECT_GE(library.version(), 21800);
    EXPECT_NE(library.path().find("libnccl.so"), std::string::npos) << library.path();
    EXPECT_EQ(library.name(), "NCCL " + library.version_text() + " (" + library.path() + ")");
  } catch (const UserError& error) {
    SKIP_FOR(gpu) << error.what();
  }
}

}  // namespace
}  // namespace trireme

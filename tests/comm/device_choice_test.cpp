#include "comm/device_choice.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::vector<DeviceOffer> ranks_on(const std::string& host, int ranks, int devices) {
  return std::vector<DeviceOffer>(static_cast<size_t>(ranks), {.host = host, .visible = "", .devices = devices});
}

TEST(DeviceChoice, AGpuForEachRankIsForNccl) {
  std::vector<DeviceOffer> offers = ranks_on("a", 4, 4);
  for (const DeviceOffer& offer : ranks_on("b", 4, 4)) offers.push_back(offer);
  for (int rank = 0; rank < 8; ++rank) {
    const DeviceChoice choice = choose_device(offers, rank);
    EXPECT_EQ(choice.groups, DeviceGroups::nccl);
    EXPECT_EQ(choice.device, rank % 4);
    EXPECT_EQ(choice.sharing, 1);
  }
}

TEST(DeviceChoice, RanksThatShareAGpuStage) {
  for (int rank = 0; rank < 4; ++rank) {
    const DeviceChoice choice = choose_device(ranks_on("a", 4, 1), rank);
    EXPECT_EQ(choice.groups, DeviceGroups::staged);
    EXPECT_EQ(choice.device, 0);
    EXPECT_EQ(choice.sharing, 4);
  }
}

TEST(DeviceChoice, RanksTakeGpusInTurn) {
  const std::vector<DeviceOffer> offers = ranks_on("a", 5, 2);
  EXPECT_EQ(choose_device(offers, 0).device, 0);
  EXPECT_EQ(choose_device(offers, 3).device, 1);
  EXPECT_EQ(choose_device(offers, 4).device, 0);
  EXPECT_EQ(choose_device(offers, 4).sharing, 3);
  EXPECT_EQ(choose_device(offers, 1).sharing, 2);
}

// As srun does with --gpus-per-task=1: every process sees one GPU, each another.
TEST(DeviceChoice, RanksThatSeeDifferentGpusDoNotShare) {
  const std::vector<DeviceOffer> offers = {{"a", "0", 1}, {"a", "1", 1}};
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(choose_device(offers, rank).groups, DeviceGroups::nccl);
    EXPECT_EQ(choose_device(offers, rank).device, 0);
  }
}

// All ranks draw the same conclusion from the one that is different.
TEST(DeviceChoice, OneRankDecidesForAll) {
  std::vector<DeviceOffer> offers = ranks_on("a", 2, 2);
  offers.push_back({"b", "", 1});
  offers.push_back({"b", "", 1});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(choose_device(offers, rank).groups, DeviceGroups::staged);
  offers.push_back({"c", "", 0});
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(choose_device(offers, rank).groups, DeviceGroups::none);
}

}  // namespace
}  // namespace trireme

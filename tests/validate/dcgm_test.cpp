// What DCGM's JSON says, in the formats of its versions.
#include "validate/dcgm.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme {
namespace {

// DCGM 2 and 3.
constexpr const char* kGood = R"({"DCGM GPU Diagnostic": {"test_categories": [
  {"category": "Deployment", "tests": [{"name": "Denylist", "results": [{"status": "Pass"}]},
                                       {"name": "NVML Library", "results": [{"status": "Pass"}]}]},
  {"category": "Hardware", "tests": [{"name": "GPU Memory", "results": [{"gpu_id": "0", "status": "Pass"},
                                                                        {"gpu_id": "1", "status": "Skip"}]}]}]}})";
constexpr const char* kBad = R"(Successfully ran diagnostic for group.
{"DCGM GPU Diagnostic": {"test_categories": [
  {"category": "Integration", "tests": [{"name": "PCIe", "results": [
    {"gpu_id": "0", "status": "Pass"},
    {"gpu_id": "3", "status": "Fail", "warnings": ["PCIe replays: 21.", "Reseat the card."]}]}]},
  {"category": "Stress", "tests": [{"name": "Targeted Power", "results": [{"gpu_ids": "5", "status": "FAIL", "warnings": "low power"}]}]}]}})";
// DCGM 4.
constexpr const char* kBad4 = R"({"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory",
  "results": [{"entity_group": "GPU", "entity_group_id": 1, "entity_id": 2, "status": "Fail",
               "warnings": [{"error_id": 42, "warning": "uncorrectable error"}]}],
  "test_summary": {"status": "Fail"}}]}]}, "version": "4.1.0"})";

TEST(Dcgm, AGoodResultHasNoFaults) { EXPECT_TRUE(dcgm_faults(kGood).empty()); }

TEST(Dcgm, NamesTestAndGpuOfEachFault) {
  const auto faults = dcgm_faults(kBad);
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults[0].test, "PCIe");
  EXPECT_EQ(faults[0].device, "GPU 3");
  EXPECT_EQ(faults[0].message, "PCIe replays: 21. Reseat the card.");
  EXPECT_EQ(faults[1].device, "GPU 5");
  const auto newer = dcgm_faults(kBad4);
  ASSERT_EQ(newer.size(), 1u);
  EXPECT_EQ(newer[0].device, "GPU 2");
  EXPECT_EQ(newer[0].message, "uncorrectable error");
}

TEST(Dcgm, WhatIsNotAResultIsAFailure) {
  for (const char* text : {"", "Error: unable to connect to host engine", "{}", "{\"a\": [1, 2", "[1]", "\xff\xfe{"})
    EXPECT_THROW(dcgm_faults(text), Failure) << text;
}

TEST(Dcgm, StrangeMembersAreLeftOut) {
  EXPECT_TRUE(dcgm_faults(R"({"tests": [{"name": 3, "results": [7, null, {"status": 1}, {"status": "Pass", "warnings": {}}]}]})")
                  .empty());
}

}  // namespace
}  // namespace trireme

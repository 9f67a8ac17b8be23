#include "telemetry/peaks.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

struct Expected {
  const char* device;
  double bf16, fp8;  // 0: none
};

class Peaks : public testing::TestWithParam<Expected> {};

TEST_P(Peaks, OfADevice) {
  const Expected& expected = GetParam();
  const auto tflops = [&](PeakPrecision precision) {
    const auto peak = device_peak(expected.device, precision);
    return peak ? peak->tflops : 0;
  };
  EXPECT_EQ(tflops(PeakPrecision::bf16), expected.bf16) << expected.device;
  EXPECT_EQ(tflops(PeakPrecision::fp8), expected.fp8) << expected.device;
}

INSTANTIATE_TEST_SUITE_P(AsADriverNamesIt, Peaks,
                         testing::Values(Expected{"NVIDIA H100 80GB HBM3", 989, 1978}, Expected{"NVIDIA H100 PCIe", 756.5, 1513},
                                         Expected{"NVIDIA H100 NVL", 835.5, 1670.5}, Expected{"NVIDIA H200", 989, 1978},
                                         Expected{"NVIDIA H200 NVL", 835.5, 1670.5}, Expected{"NVIDIA B200", 2250, 4500},
                                         Expected{"NVIDIA GB200", 2500, 5000}, Expected{"NVIDIA A100-SXM4-80GB", 312, 0},
                                         Expected{"NVIDIA A100 80GB PCIe", 312, 0}));

INSTANTIATE_TEST_SUITE_P(AsAPersonNamesIt, Peaks,
                         testing::Values(Expected{"h100", 989, 1978}, Expected{"H200", 989, 1978}, Expected{"b200", 2250, 4500},
                                         Expected{"a100", 312, 0}, Expected{"h100-pcie", 756.5, 1513},
                                         Expected{"h100_nvl", 835.5, 1670.5}, Expected{"v5e", 197, 0}, Expected{"v5p", 459, 0}));

// Names that only look like one of the table.
INSTANTIATE_TEST_SUITE_P(Unknown, Peaks,
                         testing::Values(Expected{"", 0, 0}, Expected{"NVIDIA GH200 480GB", 0, 0}, Expected{"NVIDIA H20", 0, 0},
                                         Expected{"NVIDIA RTX A1000", 0, 0}, Expected{"NVIDIA B300", 0, 0},
                                         Expected{"some future GPU", 0, 0}));

TEST(PeakTable, AreNamedAsTheyWereAskedFor) {
  EXPECT_EQ(device_peak("NVIDIA H200", PeakPrecision::fp8)->name, "NVIDIA H200, fp8 dense");
}

TEST(PeakTable, EveryNameOfTheTableFindsItself) {
  for (const std::string_view name : devices_with_a_known_peak()) EXPECT_TRUE(device_peak(name, PeakPrecision::bf16)) << name;
}

}  // namespace
}  // namespace trireme

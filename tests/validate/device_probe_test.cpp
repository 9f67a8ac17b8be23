// What a device computes wrong, and how fast it is.
#include "validate/device_probe.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "support/fake_device.h"
#include "validate/wrong_backend.h"

namespace trireme {
namespace {

TEST(DeviceProbe, ARightDeviceHasNoErrors) {
  CpuBackend cpu(1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const DeviceErrors errors = check_device(cpu, dtype);
    EXPECT_EQ(errors.gemm, 0);
    EXPECT_EQ(errors.memory, 0);
  }
}

TEST(DeviceProbe, OneWrongElementOfAGemmShows) {
  CpuBackend cpu(1);
  WrongGemm wrong(cpu);
  EXPECT_EQ(check_device(wrong, DType::f32).gemm, 2) << "a row in each of two GEMMs";
}

TEST(DeviceProbe, OneLostNumberShows) {
  CpuBackend cpu(1);
  WrongCopy wrong(cpu);
  EXPECT_GT(check_device(wrong, DType::f32).memory, 0);
}

// Ops that are done later, on a thread, as on a GPU.
TEST(DeviceProbe, WaitsForTheDevice) {
  FakeDevice device(1);
  const DeviceErrors errors = check_device(device, DType::f32);
  EXPECT_EQ(errors.gemm, 0);
  EXPECT_EQ(errors.memory, 0);
}

TEST(DeviceProbe, StartsEachWindowOnce) {
  CpuBackend cpu(1);
  int begins = 0;
  const DeviceRates rates = measure_device(cpu, DType::f32, 0.01, [&] { ++begins; });
  EXPECT_EQ(begins, 2);
  EXPECT_GT(rates.flops, 1e6);
  EXPECT_GT(rates.burst_flops, 1e6);
  EXPECT_GT(rates.bytes, 1e6);
  EXPECT_EQ(rates.to_device, 0) << "it computes on host memory";
}

}  // namespace
}  // namespace trireme

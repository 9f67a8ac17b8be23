// What one rank's device computes, and how fast: GEMM, copy, and for devices with memory of their own the way from and to the
// host.
#pragma once

#include <functional>

#include "backend/backend.h"

namespace trireme {

// Elements of exact results that differ.
struct DeviceErrors {
  int64_t gemm = 0;    // rows of a GEMM of small integers, whose sums bf16 and f32 hold exactly
  int64_t memory = 0;  // numbers that a copy did not keep
};
DeviceErrors check_device(Backend& backend, DType dtype);

struct DeviceRates {
  double flops = 0;                   // per second, of a large GEMM of random numbers, over and over
  double burst_flops = 0;             // of the first of them, before limits of power and temperature act
  double bytes = 0;                   // per second, read and written by a large copy
  double to_device = 0, to_host = 0;  // bytes per second from and to pinned host memory; 0: the device computes on host memory
};
// Each rate over a window of so many seconds after its warm-up. `begin` is called before each window: ranks start it together,
// because they share power, memory and cores as they do in training.
DeviceRates measure_device(Backend& backend, DType dtype, double window, const std::function<void()>& begin);

// A window of so many seconds takes how long in all.
double probe_seconds(double window);

}  // namespace trireme

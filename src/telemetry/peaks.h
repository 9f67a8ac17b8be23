// The most arithmetic that a device can do: what MFU is a share of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class PeakPrecision : uint8_t { bf16, fp8 };
const char* name_of(PeakPrecision precision);  // "bf16" or "fp8"

struct DevicePeak {
  std::string name;   // "NVIDIA H200, bf16 dense", "measured on this CPU"
  double tflops = 0;  // 0: not known
};

// The vendor's figure without sparsity. `device` is what a driver calls the device ("NVIDIA H100 80GB HBM3") or what a person
// does ("h100"); upper and lower case are the same. Nothing for a device that is not in the table, or that has no such
// precision: a rate against a guessed peak would be worse than none.
std::optional<DevicePeak> device_peak(std::string_view device, PeakPrecision precision);

// The names of the table, for a message that has to say which there are: "gb200", "b200", "h200 nvl", ...
std::vector<std::string_view> devices_with_a_known_peak();

}  // namespace trireme

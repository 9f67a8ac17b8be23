// The peak arithmetic rate of a device, the denominator of MFU.
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
  double tflops = 0;  // 0: unknown
};

// Returns the vendor's figure without sparsity. `device` is a driver's name ("NVIDIA H100 80GB HBM3") or a user's ("h100"); case
// is ignored. Returns nothing for a device or precision that is not in the table: a rate against a guessed peak would be worse
// than none.
std::optional<DevicePeak> device_peak(std::string_view device, PeakPrecision precision);

// Returns the names in the table, for error messages: "gb200", "b200", "h200 nvl", ...
std::vector<std::string_view> devices_with_a_known_peak();

}  // namespace trireme

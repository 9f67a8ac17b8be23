#include "telemetry/peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace trireme {
namespace {

struct PeakRow {
  std::string_view name;  // in lower case
  double bf16_tflops;
  double fp8_tflops;  // 0: the device has no FP8
};

// The first row whose name is in the device's name applies, so special cases precede general ones.
//
// NVIDIA publishes figures with sparsity; dense is half of them. H100 SXM, H200 and B200 have the values of gpu-recipes'
// training-metrics tool, so that utilizations are comparable. Its 989 and 1978 are the data sheet's values, halved and rounded
// down.
//
//   data sheet, with sparsity    bf16     fp8
//   GB200, each GPU             5,000  10,000
//   H100 SXM                    1,979   3,958
//   H100 NVL and H200 NVL       1,671   3,341
//   H100 PCIe                   1,513   3,026
//   A100                          624    none
//
// v5e and v5p are TPUs, which that tool knows in bf16 only.
constexpr std::array kPeaks{
    PeakRow{"gb200", 2500, 5000}, PeakRow{"b200", 2250, 4500},       PeakRow{"h200 nvl", 835.5, 1670.5},
    PeakRow{"h200", 989, 1978},   PeakRow{"h100 pcie", 756.5, 1513}, PeakRow{"h100 nvl", 835.5, 1670.5},
    PeakRow{"h100", 989, 1978},   PeakRow{"a100", 312, 0},           PeakRow{"v5e", 197, 0},
    PeakRow{"v5p", 459, 0},
};

bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Matches whole words, so that a GH200 does not match H200, nor an "a1000" A100.
bool names(std::string_view device, std::string_view row) {
  for (size_t at = device.find(row); at != std::string_view::npos; at = device.find(row, at + 1)) {
    const size_t end = at + row.size();
    if ((at == 0 || !is_alphanumeric(device[at - 1])) && (end == device.size() || !is_alphanumeric(device[end]))) return true;
  }
  return false;
}

// Users type "h100-pcie" and "H100_PCIe" for "h100 pcie".
std::string normalised(std::string_view device) {
  std::string result(device);
  std::ranges::transform(result, result.begin(), [](unsigned char c) {
    return is_alphanumeric(static_cast<char>(c)) ? static_cast<char>(std::tolower(c)) : ' ';
  });
  return result;
}

}  // namespace

const char* name_of(PeakPrecision precision) { return precision == PeakPrecision::fp8 ? "fp8" : "bf16"; }

std::optional<DevicePeak> device_peak(std::string_view device, PeakPrecision precision) {
  const std::string name = normalised(device);
  const auto row = std::ranges::find_if(kPeaks, [&](const PeakRow& candidate) { return names(name, candidate.name); });
  if (row == kPeaks.end()) return std::nullopt;
  const double tflops = precision == PeakPrecision::fp8 ? row->fp8_tflops : row->bf16_tflops;
  if (tflops == 0) return std::nullopt;
  return DevicePeak{fmt::format("{}, {} dense", device, name_of(precision)), tflops};
}

std::vector<std::string_view> devices_with_a_known_peak() {
  std::vector<std::string_view> names;
  for (const PeakRow& row : kPeaks) names.push_back(row.name);
  return names;
}

}  // namespace trireme

#include "telemetry/flops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace trireme {
namespace {

struct GpuPeaks {
  std::string_view name_part;  // in lower case
  double bf16_tflops;
  double fp8_tflops;  // 0: the GPU has no FP8
};

// The first row whose name is part of the device's name counts, so the special cases stand before the general ones.
constexpr std::array kGpuPeaks{
    GpuPeaks{"gb200", 2500, 5000}, GpuPeaks{"b200", 2250, 4500},       GpuPeaks{"h200 nvl", 835.5, 1671},
    GpuPeaks{"h200", 989, 1978},   GpuPeaks{"h100 pcie", 756.5, 1513}, GpuPeaks{"h100 nvl", 835.5, 1671},
    GpuPeaks{"h100", 989, 1978},   GpuPeaks{"a100", 312, 0},
};

}  // namespace

double model_flops_per_sample(const ModelDimensions& model, FlopsFormula formula) {
  const double L = static_cast<double>(model.layers), C = static_cast<double>(model.width);
  const double F = static_cast<double>(model.ffn_width), T = static_cast<double>(model.sequence_length);
  const double H = static_cast<double>(model.heads), G = static_cast<double>(model.groups);
  const double D = static_cast<double>(model.head_width), V = static_cast<double>(model.vocabulary);
  const double mlp_products = model.gated_mlp == GatedMlp::yes ? 3 : 2;
  const double attention_factor = formula == FlopsFormula::full ? 4 : 2;

  const double qkv = 2 * C * (H + 2 * G) * D;
  const double projection = 2 * H * D * C;
  const double mlp = 2 * mlp_products * C * F;
  const double attention = attention_factor * T * H * D;
  const double head = 2 * C * V;
  return 3 * T * (L * (qkv + projection + mlp + attention) + head);
}

const char* name_of(FlopsFormula formula) { return formula == FlopsFormula::full ? "full" : "causal"; }

std::optional<DevicePeak> gpu_peak(std::string_view device_name, PeakPrecision precision) {
  std::string lower(device_name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const GpuPeaks& row : kGpuPeaks) {
    if (lower.find(row.name_part) == std::string::npos) continue;
    const bool fp8 = precision == PeakPrecision::fp8;
    const double tflops = fp8 ? row.fp8_tflops : row.bf16_tflops;
    if (tflops == 0) return std::nullopt;
    return DevicePeak{fmt::format("{}, {} dense", device_name, fp8 ? "fp8" : "bf16"), tflops};
  }
  return std::nullopt;
}

double RateBasis::tflops_per_device(double samples, double seconds) const {
  if (seconds <= 0) return 0;
  return flops_per_sample * samples / seconds / static_cast<double>(devices) / 1e12;
}

std::string RateBasis::description() const {
  const std::string work = fmt::format("{:.4g} model FLOPs a sample (formula {}: {} attention, backward twice forward)",
                                       flops_per_sample, name_of(formula), name_of(formula));
  if (peak.tflops == 0) return work + "; no MFU: the peak of this device is not known";
  return fmt::format("{}; MFU is of {:.4g} TFLOP/s a device ({})", work, peak.tflops, peak.name);
}

}  // namespace trireme

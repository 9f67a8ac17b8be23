#include "telemetry/flops.h"

#include <fmt/format.h>

namespace trireme {

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

double RateBasis::tflops_per_device(double samples, double seconds) const {
  if (seconds <= 0) return 0;
  return flops_per_sample * samples / seconds / static_cast<double>(devices) / 1e12;
}

std::string RateBasis::description() const {
  const std::string work = fmt::format("{:.4g} model FLOPs per sample (formula {}: {} attention, backward twice forward)",
                                       flops_per_sample, name_of(formula), name_of(formula));
  if (peak.tflops == 0) return work + "; no MFU: the peak of this device is not known";
  return fmt::format("{}; MFU is of {:.4g} TFLOP/s per device ({})", work, peak.tflops, peak.name);
}

std::string impossible_mfu_text(double mfu) {
  if (!(mfu > 1)) return "";
  return ": impossible, so the peak, the step time, the batch or the number of devices is wrong";
}

}  // namespace trireme

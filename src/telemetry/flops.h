// The FLOPs of a model and the rates computed from them. Model FLOPs count the GEMMs that the mathematics needs: forward, and
// twice that for backward. Recomputation, norms and the optimizer are not counted.
#pragma once

#include <cstdint>
#include <string>

#include "telemetry/peaks.h"

namespace trireme {

enum class FlopsFormula : uint8_t {
  full,   // every query attends to all T keys, as in the published GPT-3 figures
  causal  // half of that, what a causal model needs
};
enum class GatedMlp : uint8_t { no, yes };

struct ModelDimensions {
  int64_t layers = 0;           // L
  int64_t width = 0;            // C
  int64_t ffn_width = 0;        // F
  int64_t heads = 0;            // H
  int64_t groups = 0;           // G
  int64_t head_width = 0;       // D
  int64_t vocabulary = 0;       // V, including padding rows, as in the reference systems
  int64_t sequence_length = 0;  // T
  GatedMlp gated_mlp = GatedMlp::no;
};

// FLOPs of forward and backward for one sample:
//   3 T (L (2 C (H+2G) D + 2 H D C + 2 m C F + a T H D) + 2 C V),   m = 2, or 3 for a gated MLP;  a = 4 full, 2 causal.
// With H D = C, G = H, F = 4 C and no gate this is (24 T C^2 + a T^2 C) 3 L + 6 T C V, the GPT-3 formula.
double model_flops_per_sample(const ModelDimensions& model, FlopsFormula formula);

const char* name_of(FlopsFormula formula);  // "full" or "causal"

// Returns ": impossible, ..." for an MFU above 1, to be appended wherever one is shown; otherwise empty.
std::string impossible_mfu_text(double mfu);

// The inputs of rates; printed once at the start of a run, and again with the rates in its summary.
struct RateBasis {
  FlopsFormula formula = FlopsFormula::full;
  double flops_per_sample = 0;
  int64_t devices = 1;
  DevicePeak peak = {};
  double causal_flops_per_sample = 0;  // by the causal formula, if both are shown; 0: not shown

  double tflops_per_device(double samples, double seconds) const;
  double mfu(double tflops_per_device) const { return peak.tflops > 0 ? tflops_per_device / peak.tflops : 0; }
  std::string description() const;
};

}  // namespace trireme

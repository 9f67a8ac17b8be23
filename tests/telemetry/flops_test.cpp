#include "telemetry/flops.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

ModelDimensions gpt3(int64_t layers, int64_t width, int64_t heads, int64_t vocabulary = 51200) {
  return {.layers = layers,
          .width = width,
          .ffn_width = 4 * width,
          .heads = heads,
          .groups = heads,
          .head_width = width / heads,
          .vocabulary = vocabulary,
          .sequence_length = 2048};
}

// All quantities below are integers under 2^53, so sums and products in double are exact and the comparisons are equalities;
// published figures are compared to the digits in which they are published.
TEST(Flops, PlainModelIsTheGpt3Formula) {
  const double L = 96, h = 12288, s = 2048, V = 51200;
  EXPECT_EQ(model_flops_per_sample(gpt3(96, 12288, 96), FlopsFormula::full),
            (24 * s * h * h + 4 * s * s * h) * 3 * L + 6 * s * h * V);
  EXPECT_EQ(model_flops_per_sample(gpt3(96, 12288, 96), FlopsFormula::causal),
            (24 * s * h * h + 2 * s * s * h) * 3 * L + 6 * s * h * V);
}

TEST(Flops, PublishedFigures) {
  EXPECT_NEAR(model_flops_per_sample(gpt3(96, 12288, 96), FlopsFormula::full), 2.2046e15, 0.00005e15);
  EXPECT_NEAR(model_flops_per_sample(gpt3(96, 12288, 96), FlopsFormula::causal), 2.1749e15, 0.00005e15);
  EXPECT_NEAR(model_flops_per_sample(gpt3(24, 4096, 32), FlopsFormula::full), 6.690e13, 0.0005e13);
  EXPECT_NEAR(model_flops_per_sample(gpt3(24, 12288, 96), FlopsFormula::full), 5.5694e14, 0.00005e14);    // the H200 proxy
  EXPECT_NEAR(model_flops_per_sample(gpt3(16, 12288, 96), FlopsFormula::causal), 3.6892e14, 0.00005e14);  // the H100 proxy
}

// s L h^2 (12 + 12 G/H + 18 F/h + 12 s/h + 6 V/(L h)), for Llama 3.1 70B at 8192 tokens.
TEST(Flops, GroupedQueriesAndGatedMlpAreTheLlamaFormula) {
  const double L = 80, h = 8192, s = 8192, V = 128256, F = 28672, H = 64, G = 8;
  const ModelDimensions model{.layers = 80,
                              .width = 8192,
                              .ffn_width = 28672,
                              .heads = 64,
                              .groups = 8,
                              .head_width = 128,
                              .vocabulary = 128256,
                              .sequence_length = 8192,
                              .gated_mlp = GatedMlp::yes};
  const double llama = s * L * h * h * (12 + 12 * G / H + 18 * F / h + 12 * s / h + 6 * V / (L * h));
  const double llama_causal = s * L * h * h * (12 + 12 * G / H + 18 * F / h + 6 * s / h + 6 * V / (L * h));
  EXPECT_DOUBLE_EQ(model_flops_per_sample(model, FlopsFormula::full), llama);  // the quotient rounds, hence four ulps
  EXPECT_DOUBLE_EQ(model_flops_per_sample(model, FlopsFormula::causal), llama_causal);
}

// Heads that are wider than width / heads: only the products with the heads in them grow.
TEST(Flops, HeadWidthIsItsOwnNumber) {
  ModelDimensions model = gpt3(1, 64, 4);
  const double narrow = model_flops_per_sample(model, FlopsFormula::full);
  model.head_width *= 2;
  const double T = 2048, C = 64;
  EXPECT_EQ(model_flops_per_sample(model, FlopsFormula::full) - narrow, 3 * T * (8 * C * C + 4 * T * C));
}

// The figures that the reference tool prints for its own example log.
TEST(Flops, RatesOfTheReferenceRun) {
  const RateBasis basis{.flops_per_sample = 2.2e15, .devices = 256, .peak = *device_peak("H100", PeakPrecision::fp8)};
  const double tflops = basis.tflops_per_device(2048, 25.39738855);
  EXPECT_NEAR(tflops, 692.98463368, 1e-6);  // the step time above is rounded to 8 decimals
  EXPECT_NEAR(basis.mfu(tflops), 0.35034612, 1e-8);
}

TEST(Flops, DescriptionNamesFormulaAndPeak) {
  RateBasis basis{.flops_per_sample = 6.69e13, .peak = *device_peak("NVIDIA H200", PeakPrecision::bf16)};
  EXPECT_NE(basis.description().find("formula full"), std::string::npos);
  EXPECT_NE(basis.description().find("989 TFLOP/s per device (NVIDIA H200, bf16 dense)"), std::string::npos);
  basis.peak = {};
  EXPECT_NE(basis.description().find("no MFU"), std::string::npos);
  EXPECT_EQ(basis.mfu(100), 0);
}

}  // namespace
}  // namespace trireme

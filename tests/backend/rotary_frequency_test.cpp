// The scaled frequencies of Llama 3.1 against those that transformers 5.22.2 computes, in float32, for heads of 128.
#include <gtest/gtest.h>

#include <array>

#include "backend/ops.h"

namespace trireme {
namespace {

// ROPE_INIT_FUNCTIONS["llama3"] with rope_theta 500000, factor 8, low_freq_factor 1, high_freq_factor 4 and 8192 original
// positions.
constexpr std::array kOfTransformers = {1.0,
                                        0.814617217,
                                        0.663601279,
                                        0.540580988,
                                        0.440366626,
                                        0.358730227,
                                        0.292227834,
                                        0.238053814,
                                        0.193922758,
                                        0.157972813,
                                        0.128687382,
                                        0.10483095,
                                        0.0853971019,
                                        0.0695659518,
                                        0.0566696189,
                                        0.0461640507,
                                        0.0376060307,
                                        0.0306345206,
                                        0.0249554086,
                                        0.0203291047,
                                        0.0165604409,
                                        0.0134904198,
                                        0.0109895291,
                                        0.00895225909,
                                        0.00729266508,
                                        0.00594073068,
                                        0.00483942125,
                                        0.00394227589,
                                        0.00321144611,
                                        0.00216657063,
                                        0.00137189368,
                                        0.00085675146,
                                        0.000524846022,
                                        0.00031269365,
                                        0.000178507791,
                                        9.55621217e-05,
                                        7.78465546e-05,
                                        6.34151438e-05,
                                        5.16590699e-05,
                                        4.20823671e-05,
                                        3.42810235e-05,
                                        2.79259093e-05,
                                        2.2748929e-05,
                                        1.85316694e-05,
                                        1.50962178e-05,
                                        1.22976389e-05,
                                        1.00178686e-05,
                                        8.1607277e-06,
                                        6.64786967e-06,
                                        5.41546933e-06,
                                        4.41153452e-06,
                                        3.59371188e-06,
                                        2.92749974e-06,
                                        2.38479174e-06,
                                        1.94269251e-06,
                                        1.58255079e-06,
                                        1.28917316e-06,
                                        1.05018262e-06,
                                        8.55496921e-07,
                                        6.96902532e-07,
                                        5.6770881e-07,
                                        4.6246538e-07,
                                        3.7673226e-07,
                                        3.06892588e-07};

TEST(RotaryFrequency, IsThatOfLlama3) {
  const RotaryScaling llama3{.factor = 8};
  // Theirs is rounded to float32 a few times: the power of a base near 5e5 multiplies the rounding of its exponent by log(5e5).
  for (size_t i = 0; i < kOfTransformers.size(); ++i)
    EXPECT_NEAR(rotary_frequency(500000, static_cast<int64_t>(i), 128, llama3) / kOfTransformers[i], 1, 2e-6) << i;
}

// Positions divided by the factor, before or after the scaling of Llama 3.1.
TEST(RotaryFrequency, LinearDividesEveryFrequency) {
  for (const RotaryScaling& other : {RotaryScaling{}, RotaryScaling{.factor = 8}})
    for (const int64_t i : {0, 1, 31, 63}) {
      RotaryScaling both = other;
      both.linear = 2.5;
      EXPECT_EQ(rotary_frequency(10000, i, 128, both), rotary_frequency(10000, i, 128, other) / 2.5) << i;
    }
}

TEST(RotaryFrequency, WithoutAFactorIsThePower) {
  for (const int64_t i : {0, 1, 63})
    EXPECT_EQ(rotary_frequency(10000, i, 128, {}), std::pow(10000.0, -2.0 * static_cast<double>(i) / 128.0));
}

}  // namespace
}  // namespace trireme

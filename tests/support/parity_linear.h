// Parity cases of the linear layers and activations.
#pragma once

#include "support/parity_cases.h"

namespace trireme {

struct LinearShape {
  int64_t N, I, O;
};
inline constexpr LinearShape kLinears[] = {{1, 5, 7},     {1, 128, 384},  {3, 16, 33}, {17, 33, 5},
                                           {130, 64, 97}, {17, 768, 130}, {64, 64, 64}};
inline constexpr Activation kActivations[] = {Activation::none, Activation::gelu_tanh, Activation::gelu_erf};

// Weights are drawn so that products of n of them with values up to 1 stay below 4.
inline double weight_size(int64_t n) { return 1.7 / std::sqrt(static_cast<double>(n)); }

inline std::string describe(const LinearShape& shape, Activation activation, bool bias) {
  return fmt::format("N={} I={} O={} activation {} bias {}", shape.N, shape.I, shape.O, static_cast<int>(activation), bias);
}

inline void check(Parity& parity, Case<LinearForward>) {
  for (const DType act : kActDTypes)
    for (const LinearShape& shape : kLinears)
      for (const Activation activation : kActivations)
        for (const bool bias : {false, true}) {
          if (activation == (bias ? Activation::gelu_erf : Activation::gelu_tanh)) continue;  // each activation once is enough
          const auto [N, I, O] = shape;
          HostTensors tensors;
          LinearForward op;
          op.x = tensors.uniform({N, I}, act);
          op.activation = activation;
          op.weight = tensors.uniform({O, I}, act, -weight_size(I), weight_size(I));
          if (bias) op.bias = tensors.uniform({O}, act);
          if (activation != Activation::none) op.pre = tensors.uniform({N, O}, act);
          op.out = tensors.uniform({N, O}, act);
          const Tolerance sum{.terms = static_cast<double>(I + 1), .size = weight_size(I)};
          Tolerance out = sum;
          // |pre| < 5 may have rounded differently, and the slope of gelu is below 1.13. Its own error is 2e-7 of its argument.
          if (activation != Activation::none)
            out = {.terms = sum.terms + 8, .size = sum.size + 5 / sum.terms, .carried = 5 * 1.13};
          parity.expect(op, act, {{"pre", sum}, {"out", out}}, describe(shape, activation, bias));
          tensors.expect_untouched_outside();
        }
}

inline void check(Parity& parity, Case<LinearInputGrad>) {
  for (const DType act : kActDTypes)
    for (const LinearShape& shape : kLinears)
      for (const Activation activation : kActivations) {
        const auto [N, I, O] = shape;
        HostTensors tensors;
        LinearInputGrad op;
        op.d_out = tensors.uniform({N, O}, act);
        op.activation = activation;
        op.weight = tensors.uniform({O, I}, act, -weight_size(O), weight_size(O));
        if (activation != Activation::none) op.pre = tensors.uniform({N, I}, act, -4, 4), op.x = tensors.uniform({N, I}, act);
        op.d_x = tensors.uniform({N, I}, act);
        // The slope of gelu is within 1e-6, and the sum below 4: as much as 16 terms of size 4 / 4.
        const Tolerance sum{.terms = static_cast<double>(O) + 16,
                            .size = 1.13 * weight_size(O) + 16.0 / static_cast<double>(O + 16)};
        const Tolerance x{.terms = 1, .size = 4};  // as ActivationForward has it
        parity.expect(op, act, {{"x", x}, {"d_x", sum}}, describe(shape, activation, false));
        tensors.expect_untouched_outside();
      }
}

inline void check(Parity& parity, Case<LinearWeightGrad>) {
  std::vector<LinearShape> shapes(std::begin(kLinears), std::end(kLinears));
  shapes.push_back({8192, 40, 24});  // many rows: a GPU sums the gradient of the bias beside the product
  for (const DType act : kActDTypes)
    for (const LinearShape& shape : shapes)
      for (const bool bias : {false, true}) {
        const auto [N, I, O] = shape;
        HostTensors tensors;
        LinearWeightGrad op;
        op.sum = bias == (N % 2 == 0) ? GradSum::adds : GradSum::replaces;
        op.x = tensors.uniform({N, I}, act);
        op.d_out = tensors.uniform({N, O}, act);
        op.d_weight = tensors.uniform({O, I}, DType::f32);
        if (bias) op.d_bias = tensors.uniform({O}, DType::f32);
        const Tolerance sum{.terms = static_cast<double>(N + 1), .size = 1};
        parity.expect(op, act, {{"d_weight", sum}, {"d_bias", sum}}, describe(shape, Activation::none, bias));
        tensors.expect_untouched_outside();
      }
}

inline void check(Parity& parity, Case<ActivationForward>) {
  for (const DType act : kActDTypes)
    for (const auto [N, F] : kMatrices)
      for (const Activation activation : kActivations) {
        HostTensors tensors;
        const ActivationForward op{
            .activation = activation, .pre = tensors.uniform({N, F}, act, -8, 8), .out = tensors.uniform({N, F}, act)};
        // The distribution function is within 2e-7, about three units of 1, and is multiplied by |pre| < 8.
        parity.expect(op, act, {{"out", {.terms = 1, .size = 8}}},
                      fmt::format("N={} F={} {}", N, F, static_cast<int>(activation)));
        tensors.expect_untouched_outside();
      }
}

inline void check(Parity& parity, Case<SwigluForward>) {
  for (const DType act : kActDTypes)
    for (const auto [N, F] : kMatrices) {
      HostTensors tensors;
      const SwigluForward op{.gate_up = tensors.uniform({N, 2 * F}, act, -8, 8), .out = tensors.uniform({N, F}, act)};
      // Eight units of |gate * up| < 64 for the exponential, a sum, a division and two products.
      parity.expect(op, act, {{"out", {.terms = 2, .size = 64}}}, fmt::format("N={} F={}", N, F));
      tensors.expect_untouched_outside();
    }
}

inline void check(Parity& parity, Case<SwigluBackward>) {
  for (const DType act : kActDTypes)
    for (const auto [N, F] : kMatrices)
      for (const bool in_place : {false, true}) {
        HostTensors tensors;
        SwigluBackward op;
        op.gate_up = tensors.uniform({N, 2 * F}, act, -8, 8);
        op.d_out = tensors.uniform({N, F}, act);
        op.d_gate_up = in_place ? op.gate_up : tensors.uniform({N, 2 * F}, act);
        // |d_out * up| < 8, times sigmoid * (1 + gate (1 - sigmoid)), whose terms are below 1.3.
        parity.expect(op, act, {{"d_gate_up", {.terms = 4, .size = 8 * 1.3}}},
                      fmt::format("N={} F={} in place {}", N, F, in_place));
        tensors.expect_untouched_outside();
      }
}

}  // namespace trireme

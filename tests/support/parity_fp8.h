// Parity cases of the FP8 ops.
#pragma once

#include <limits>

#include "support/parity_cases.h"
#include "tensor/fp8.h"

namespace trireme {

// An operand [N,C] bf16 with all copies that there can be.
inline Operand with_fp8_copies(HostTensors& tensors, const Tensor& x, DType fp8, const Fp8Scaling& scaling, float scale) {
  const int64_t N = x.shape[0], C = x.shape[1];
  Operand operand = x;
  operand.fp8.values = tensors.bytes({N, C}, fp8);
  operand.fp8.transposed = tensors.bytes({C, N}, fp8);
  operand.fp8.column_sums = tensors.uniform({ceil_div(N, Fp8Copy::kSumRows), C}, DType::f32);
  operand.fp8.scale = tensors.uniform({1}, DType::f32, scale, scale);
  operand.fp8.inverse = tensors.uniform({1}, DType::f32, 1 / scale, 1 / scale);
  operand.fp8.amax = tensors.uniform({1}, DType::f32, 0.1, 0.1);
  operand.fp8.largest = largest_of(fp8) / 2;
  operand.fp8.scaling = &scaling;
  return operand;
}

// Everything is exact but the sums: what they are compared with was rounded 128 times, too.
inline void check(Parity& parity, Case<Quantize>) {
  static constexpr Fp8Scaling kScalings[] = {Fp8Scaling::delayed, Fp8Scaling::current};
  constexpr Matrix kShapes[] = {{16, 16}, {128, 128}, {48, 272}, {400, 144}};
  constexpr float kBad = std::numeric_limits<float>::quiet_NaN(), kHuge = 3e38f;
  for (const DType fp8 : {DType::f8e4m3, DType::f8e5m2})
    for (const Fp8Scaling& scaling : kScalings)
      for (const Matrix& shape : kShapes)
        for (const float odd : {0.0f, kHuge, kBad}) {
          HostTensors tensors;
          const Tensor x = tensors.uniform({shape.N, shape.C}, DType::bf16, -3, 3);
          x.as<bf16>()[shape.C + 5] = to_bf16(odd);
          // A scale at which some values are subnormal and others saturate.
          const Operand operand = with_fp8_copies(tensors, x, fp8, scaling, largest_of(fp8) / 2);
          const Tolerance sums{.terms = 2.0 * Fp8Copy::kSumRows, .size = odd == kHuge ? 3e38 : 3.0};
          parity.expect(Quantize{.x = operand}, DType::bf16, {{"fp8_column_sums", sums}},
                        fmt::format("N={} C={} {} {} with {}", shape.N, shape.C, name_of(fp8),
                                    scaling == Fp8Scaling::current ? "current" : "delayed", odd));
          tensors.expect_untouched_outside();
        }
}

// Exact too: each of the few operations before the rounding is rounded in the same way everywhere.
inline void check(Parity& parity, Case<QuantizeNorm>) {
  static constexpr Fp8Scaling kScalings[] = {Fp8Scaling::delayed, Fp8Scaling::current};
  constexpr Matrix kShapes[] = {{16, 16}, {48, 272}, {400, 144}};
  for (const NormKind kind : {NormKind::layernorm, NormKind::layernorm1p, NormKind::rmsnorm})
    for (const Fp8Scaling& scaling : kScalings)
      for (const auto [N, C] : kShapes)
        for (const bool both : {false, true}) {
          HostTensors tensors;
          QuantizeNorm op{.kind = kind,
                          .sum = tensors.uniform({N, C}, DType::bf16, -3, 3),
                          .weight = tensors.uniform({C}, DType::bf16),
                          .bias = kind == NormKind::rmsnorm ? Tensor{} : tensors.uniform({C}, DType::bf16),
                          .mean = kind == NormKind::rmsnorm ? Tensor{} : tensors.uniform({N}, DType::f32, -0.5, 0.5),
                          .rstd = tensors.uniform({N}, DType::f32, 0.5, 1.5),
                          .out = with_fp8_copies(tensors, tensors.uniform({N, C}, DType::bf16), DType::f8e4m3, scaling, 60)};
          op.out.fp8.column_sums = {};
          if (!both) op.out.fp8.values = {};
          parity.expect(op, DType::bf16, {},
                        fmt::format("N={} C={} kind {} {}{}", N, C, static_cast<int>(kind),
                                    scaling == Fp8Scaling::current ? "current" : "delayed", both ? "" : " transposed"));
          tensors.expect_untouched_outside();
        }
}

inline void check(Parity& parity, Case<UpdateScales>) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const AmaxChoice choice : {AmaxChoice::largest, AmaxChoice::most_recent})
    for (const int64_t history : {1, 2, 5, 256, 257, 1024}) {
      HostTensors tensors;
      constexpr int64_t kRows = 6;
      const Tensor amax = tensors.uniform({kRows}, DType::f32, 0, 2),
                   table = tensors.uniform({kRows, UpdateScales::kHistory + history + 1}, DType::f32, 0, 2);
      const float odd[] = {0.0f, kInfinity, std::numeric_limits<float>::quiet_NaN(), 1e-40f};
      std::copy(std::begin(odd), std::end(odd), amax.as<float>());
      std::fill_n(table.as<float>() + UpdateScales::kHistory, history, 0.0f);  // row 0 has never seen a value
      parity.expect(UpdateScales{.choice = choice, .largest = 448, .history = history, .amax = amax, .table = table}, DType::f32,
                    {}, fmt::format("history {} {}", history, choice == AmaxChoice::largest ? "largest" : "most recent"));
      tensors.expect_untouched_outside();
    }
}

}  // namespace trireme

// Parity cases of the embedding and of the residual stream.
#pragma once

#include "support/parity_cases.h"

namespace trireme {

inline void check(Parity& parity, Case<EmbeddingForward>) {
  for (const DType act : kActDTypes)
    for (const auto [N, C] : kMatrices)
      for (const float probability : kProbabilities)
        for (const bool with_position : {false, true}) {
          HostTensors tensors;
          // Without positions the table is a part: tokens 4 to 8 of 11.
          const EmbeddingForward op{.first_token = with_position ? 0 : 4,
                                    .tokens = tensors.integers({N}, 0, 11),
                                    .positions = tensors.integers({N}, 0, 7),
                                    .word = tensors.uniform({with_position ? 11 : 5, C}, act),
                                    .position = with_position ? tensors.uniform({7, C}, act) : Tensor{},
                                    .dropout = dropout(tensors, N, probability),
                                    .out = tensors.uniform({N, C}, act)};
          parity.expect(op, act, {{"out", {.terms = 2, .size = 2 * dropout_scale(probability), .same_zeros = true}}},
                        describe(N, C, probability, with_position ? "position" : ""));
          tensors.expect_untouched_outside();
        }
}

inline void check(Parity& parity, Case<EmbeddingBackward>) {
  for (const DType act : kActDTypes)
    for (const auto [N, C] : kMatrices)
      for (const float probability : kProbabilities)
        for (const bool with_position : {false, true}) {
          HostTensors tensors;
          const EmbeddingBackward op{.first_token = with_position ? 0 : 4,
                                     .tokens = tensors.integers({N}, 0, 11),
                                     .positions = tensors.integers({N}, 0, 7),
                                     .dropout = dropout(tensors, N, probability),
                                     .d_out = tensors.uniform({N, C}, act),
                                     .d_word = tensors.uniform({with_position ? 11 : 5, C}, DType::f32),
                                     .d_position = with_position ? tensors.uniform({7, C}, DType::f32) : Tensor{}};
          const Tolerance sum{.terms = static_cast<double>(N + 1), .size = dropout_scale(probability)};
          parity.expect(op, act, {{"d_word", sum}, {"d_position", sum}},
                        describe(N, C, probability, with_position ? "position" : ""));
          tensors.expect_untouched_outside();
        }
}

enum class Branches { none, one, two, one_in_place };
inline constexpr Branches kBranches[] = {Branches::none, Branches::one, Branches::two, Branches::one_in_place};

inline void check(Parity& parity, Case<ResidualNormForward>) {
  for (const DType act : kActDTypes)
    for (const auto [N, C] : kMatrices)
      for (const NormKind kind : {NormKind::layernorm, NormKind::layernorm1p, NormKind::rmsnorm})
        for (const Branches branches : kBranches)
          for (const float probability : kProbabilities) {
            const bool without_dropout = branches == Branches::none || kind == NormKind::rmsnorm;
            if (without_dropout && probability > 0) continue;
            HostTensors tensors;
            ResidualNormForward op;
            op.kind = kind;
            op.epsilon = 1e-3f;
            op.residual = tensors.uniform({N, C}, act);
            if (branches != Branches::none)
              op.branch = tensors.uniform({N, C}, act), op.dropout = dropout(tensors, N, probability);
            if (branches == Branches::two)
              op.branch2 = tensors.uniform({N, C}, act), op.dropout2 = op.dropout, op.dropout2.site = 9;
            op.weight = tensors.uniform({C}, act);
            if (kind != NormKind::rmsnorm && branches != Branches::one) op.bias = tensors.uniform({C}, act);
            if (branches == Branches::one || branches == Branches::two) op.sum = tensors.uniform({N, C}, act);
            if (branches == Branches::one_in_place) op.sum = op.residual;
            op.out = tensors.uniform({N, C}, act);
            if (kind != NormKind::rmsnorm) op.mean = tensors.uniform({N}, DType::f32);
            op.rstd = tensors.uniform({N}, DType::f32);

            // |sum| < 4. A sum that rounded differently moves the statistics by its unit / C, out by its unit * rstd * gain. For
            // a narrow row rstd can be anything up to 1 / sqrt(epsilon) = 32, for a wide one it is near 1 / deviation < 2.
            const double carried = branches == Branches::none ? 0 : 4, rstd = C < 16 ? 32 : 2, gain = 2;
            const Tolerances tolerances{
                {"sum", {.terms = 3, .size = 4}},
                {"mean", {.terms = 2, .size = 1, .carried = carried / static_cast<double>(C)}},
                {"rstd", {.terms = 4, .size = rstd, .carried = carried * std::pow(rstd, 2) / static_cast<double>(C)}},
                {"out", {.terms = 8, .size = 4 * rstd, .carried = carried * rstd * gain}}};
            parity.expect(op, act, tolerances,
                          describe(N, C, probability,
                                   fmt::format("kind {} branches {}", static_cast<int>(kind), static_cast<int>(branches))));
            tensors.expect_untouched_outside();
          }
}

enum class DSum { separate, is_d_residual, is_d_out, without_d_residual };

inline void check(Parity& parity, Case<ResidualNormBackward>) {
  std::vector<Matrix> matrices(std::begin(kMatrices), std::end(kMatrices));
  matrices.push_back({1100, parity.has_gpu() ? 2048 : 48});  // more rows than the blocks of a GPU take at once
  for (const DType act : kActDTypes)
    for (const auto [N, C] : matrices)
      for (const NormKind kind : {NormKind::layernorm, NormKind::layernorm1p, NormKind::rmsnorm})
        for (const DSum d_sum : {DSum::separate, DSum::is_d_residual, DSum::is_d_out, DSum::without_d_residual})
          for (const float probability : kProbabilities) {
            if (d_sum != DSum::separate && probability == 0) continue;
            if (N > 1000 && (kind != NormKind::layernorm || d_sum != DSum::separate)) continue;  // these take long
            HostTensors tensors;
            ResidualNormBackward op;
            op.kind = kind;
            op.sum = tensors.uniform({N, C}, act);
            op.weight = tensors.uniform({C}, act);
            if (kind != NormKind::rmsnorm) op.mean = tensors.uniform({N}, DType::f32, -0.5, 0.5);
            op.rstd = tensors.uniform({N}, DType::f32, 0.5, 1.5);
            op.d_out = tensors.uniform({N, C}, act);
            if (d_sum != DSum::without_d_residual) op.d_residual = tensors.uniform({N, C}, act);
            op.d_sum = d_sum == DSum::is_d_residual ? op.d_residual
                       : d_sum == DSum::is_d_out    ? op.d_out
                                                    : tensors.uniform({N, C}, act);
            op.dropout = dropout(tensors, N, probability);
            op.dropout2 = op.dropout, op.dropout2.site = 9;
            if (d_sum != DSum::is_d_residual) op.d_branch = tensors.uniform({N, C}, act);
            if (d_sum == DSum::separate) op.d_branch2 = tensors.uniform({N, C}, act);
            op.d_weight = tensors.uniform({C}, DType::f32);
            if (kind != NormKind::rmsnorm) op.d_bias = tensors.uniform({C}, DType::f32);

            // |normalised| < 2.25, |d_out * gain| < 2, |average| < 2, |average of products| < 4.5, so |d_sum| < 22. The averages
            // are sums of C terms divided by C, and count like one.
            const Tolerance branch{.terms = 8, .size = 22 * dropout_scale(probability), .roundings = 2, .same_zeros = true};
            const Tolerances tolerances{{"d_sum", {.terms = 8, .size = 22}},
                                        {"d_branch", branch},
                                        {"d_branch2", branch},
                                        {"d_weight", {.terms = static_cast<double>(N + 1), .size = 2.25}},
                                        {"d_bias", {.terms = static_cast<double>(N + 1), .size = 1}}};
            parity.expect(
                op, act, tolerances,
                describe(N, C, probability, fmt::format("kind {} d_sum {}", static_cast<int>(kind), static_cast<int>(d_sum))));
            tensors.expect_untouched_outside();
          }
}

inline void check(Parity& parity, Case<ResidualAdd>) {
  for (const DType act : kActDTypes)
    for (const auto [N, C] : kMatrices)
      for (const float probability : kProbabilities)
        for (const Branches branches : {Branches::one, Branches::two, Branches::one_in_place}) {
          HostTensors tensors;
          ResidualAdd op;
          op.residual = tensors.uniform({N, C}, act);
          op.branch = tensors.uniform({N, C}, act);
          op.dropout = dropout(tensors, N, probability);
          if (branches == Branches::two)
            op.branch2 = tensors.uniform({N, C}, act), op.dropout2 = op.dropout, op.dropout2.site = 9;
          op.sum = branches == Branches::one_in_place ? op.residual : tensors.uniform({N, C}, act);
          parity.expect(op, act, {{"sum", {.terms = 3, .size = 4}}},
                        describe(N, C, probability, fmt::format("branches {}", static_cast<int>(branches))));
          tensors.expect_untouched_outside();
        }
}

inline void check(Parity& parity, Case<DropoutBackward>) {
  for (const DType act : kActDTypes)
    for (const auto [N, C] : kMatrices)
      for (const float probability : kProbabilities) {
        HostTensors tensors;
        const DropoutBackward op{.d_sum = tensors.uniform({N, C}, act),
                                 .dropout = dropout(tensors, N, probability),
                                 .d_branch = tensors.uniform({N, C}, act)};
        parity.expect(op, act, {{"d_branch", {.terms = 1, .size = dropout_scale(probability), .same_zeros = true}}},
                      describe(N, C, probability));
        tensors.expect_untouched_outside();
      }
}

}  // namespace trireme

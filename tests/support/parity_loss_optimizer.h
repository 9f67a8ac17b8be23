// Parity cases of the loss, the optimizer and the memory ops.
#pragma once

#include <limits>

#include "support/parity_cases.h"

namespace trireme {

struct LogitsShape {
  int64_t N, V, vocabulary;
  int64_t first = 0;  // column of a larger vocabulary
};
inline constexpr LogitsShape kLogits[] = {{1, 5, 5},         {3, 64, 61},     {17, 131, 100},   {17, 64, 64, 64},
                                          {17, 64, 33, 128}, {5, 5000, 4999}, {2, 50304, 50257}};

// Some of them in the part of the vocabulary that the shape is, some before, some behind, some masked.
inline Tensor masked_targets(HostTensors& tensors, const LogitsShape& shape) {
  const int64_t N = shape.N;
  const Tensor targets = tensors.integers({N}, 0, shape.first == 0 ? shape.vocabulary : shape.first + 2 * shape.vocabulary);
  for (int64_t n = 1; n < N; n += 3) targets.as<int32_t>()[n] = -1;
  return targets;
}

inline void check(Parity& parity, Case<CrossEntropyStats>) {
  for (const DType act : kActDTypes)
    for (const LogitsShape& shape : kLogits) {
      const auto [N, V, vocabulary, first] = shape;
      HostTensors tensors;
      const CrossEntropyStats op{.first_column = first,
                                 .vocabulary = vocabulary,
                                 .logits = tensors.uniform({N, V}, act, -20, 20),
                                 .targets = masked_targets(tensors, shape),
                                 .row_max = tensors.uniform({N}, DType::f32),
                                 .row_sum = tensors.uniform({N}, DType::f32),
                                 .target_logit = tensors.uniform({N}, DType::f32)};
      // The padding is not part of the row: the largest number there must not be seen.
      if (V > vocabulary && act == DType::f32) op.logits.as<float>()[V - 1] = 100;
      parity.expect(op, act, {{"row_sum", {.terms = static_cast<double>(vocabulary), .size = 1}}},
                    fmt::format("N={} V={}", N, V));
      tensors.expect_untouched_outside();
    }
}

inline void check(Parity& parity, Case<RescaleSums>) {
  HostTensors tensors;
  const RescaleSums op{.part_max = tensors.uniform({100}, DType::f32, -5, 0),
                       .row_max = tensors.uniform({100}, DType::f32, 0, 5),
                       .row_sum = tensors.uniform({100}, DType::f32, 1, 1000)};
  op.part_max.as<float>()[7] = -std::numeric_limits<float>::infinity();  // a part that is all padding
  // The exponent is below 10, so that the rounding of the difference counts ten times.
  parity.expect(op, DType::f32, {{"row_sum", {.terms = 12, .size = 1000}}}, "100 rows");
  tensors.expect_untouched_outside();
}

inline void check(Parity& parity, Case<CrossEntropyGrad>) {
  for (const DType act : kActDTypes)
    for (const LogitsShape& shape : kLogits)
      for (const WriteGrad write_grad : {WriteGrad::no, WriteGrad::yes}) {
        const auto [N, V, vocabulary, first] = shape;
        HostTensors tensors;
        const CrossEntropyGrad op{.first_column = first,
                                  .vocabulary = vocabulary,
                                  .write_grad = write_grad,
                                  .targets = masked_targets(tensors, shape),
                                  .row_max = tensors.uniform({N}, DType::f32),
                                  .row_sum = tensors.uniform({N}, DType::f32),
                                  .target_logit = tensors.uniform({N}, DType::f32),
                                  .logits = tensors.uniform({N, V}, act, -20, 20),
                                  .losses = tensors.uniform({N}, DType::f32),
                                  .scalars = tensors.uniform({kStepScalars}, DType::f64, 0.25, 0.5)};
        parity.reference().run(kCompute, CrossEntropyStats{.first_column = first,
                                                           .vocabulary = vocabulary,
                                                           .logits = op.logits,
                                                           .targets = op.targets,
                                                           .row_max = op.row_max,
                                                           .row_sum = op.row_sum,
                                                           .target_logit = op.target_logit});
        // Losses are below 60: logits lie within 40 of each other, and log(V) < 11.
        const Tolerances tolerances{{"logits", {.terms = 4, .size = 0.5, .same_zeros = write_grad == WriteGrad::yes}},
                                    {"losses", {.terms = 2, .size = 60}},
                                    {"scalars", {.terms = static_cast<double>(N), .size = 60}}};
        parity.expect(op, act, tolerances, fmt::format("N={} V={} write {}", N, V, static_cast<int>(write_grad)));
        tensors.expect_untouched_outside();
      }
}

inline void check(Parity& parity, Case<CrossEntropy>) {
  for (const DType act : kActDTypes)
    for (const LogitsShape& shape : kLogits)
      for (const WriteGrad write_grad : {WriteGrad::no, WriteGrad::yes}) {
        const auto [N, V, vocabulary, first] = shape;
        if (first != 0) continue;
        HostTensors tensors;
        const CrossEntropy op{.vocabulary = vocabulary,
                              .write_grad = write_grad,
                              .targets = masked_targets(tensors, shape),
                              .row_max = tensors.uniform({N}, DType::f32),
                              .row_sum = tensors.uniform({N}, DType::f32),
                              .target_logit = tensors.uniform({N}, DType::f32),
                              .logits = tensors.uniform({N, V}, act, -20, 20),
                              .losses = tensors.uniform({N}, DType::f32),
                              .scalars = tensors.uniform({kStepScalars}, DType::f64, 0.25, 0.5)};
        const auto terms = static_cast<double>(vocabulary);
        // A probability has the relative error of the row's sum.
        const Tolerances tolerances{
            {"row_sum", {.terms = terms, .size = 1}},
            {"logits", {.terms = 4 + std::sqrt(terms), .size = 0.5, .same_zeros = write_grad == WriteGrad::yes}},
            {"losses", {.terms = 2, .size = 60}},
            {"scalars", {.terms = static_cast<double>(N), .size = 60}}};
        parity.expect(op, act, tolerances, fmt::format("N={} V={} write {}", N, V, static_cast<int>(write_grad)));
        tensors.expect_untouched_outside();
      }
}

inline void check(Parity& parity, Case<SquaredNorms>) {
  HostTensors tensors;
  const FlatRange ranges[] = {{0, 1}, {3, 5}, {8, 0}, {8, 77}, {100, 200000}};
  const Tensor grads = tensors.uniform({200300}, DType::f32, -1e20, 1e20);  // their squares are beyond f32
  const SquaredNorms op{.ranges = ranges, .grads = grads, .squares = tensors.uniform({5}, DType::f64)};
  // Squares have one sign: the running sum is n s instead of sqrt(n) s.
  const double count = 200000, size = 1e40 * std::sqrt(count);
  parity.expect(op, DType::f32, {{"squares", {.terms = count, .size = size, .unit = 0x1p-53}}}, "five ranges");
  tensors.expect_untouched_outside();
}

inline void check(Parity& parity, Case<ApplyClip>) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double max_norm : {0.0, 0.5, 100.0})
    for (const double loss : {2.5, infinity, nan})
      for (const double last_square : {1.5, infinity, nan}) {
        const double loss_scale = last_square == 1.5 && loss == 2.5 ? 1024 : 1;
        HostTensors tensors;
        const ApplyClip op{.max_norm = max_norm,
                           .squares = tensors.uniform({4}, DType::f64, 0, 1),
                           .scalars = tensors.uniform({kStepScalars}, DType::f64)};
        op.squares.as<double>()[3] = last_square;
        op.scalars.as<double>()[static_cast<int64_t>(StepScalar::loss_sum)] = loss;
        op.scalars.as<double>()[static_cast<int64_t>(StepScalar::loss_scale)] = loss_scale;
        parity.expect(op, DType::f32, {{"scalars", {.terms = 4, .size = 2, .unit = 0x1p-53}}},
                      fmt::format("max_norm {} loss {} square {}", max_norm, loss, last_square));
      }
}

inline void check(Parity& parity, Case<ScaleLoss>) {
  HostTensors tensors;
  const ScaleLoss op{.scalars = tensors.uniform({kStepScalars}, DType::f64, 0.1, 0.9)};
  op.scalars.as<double>()[static_cast<int64_t>(StepScalar::loss_scale)] = 512;
  parity.expect(op, DType::f32, {{"scalars", {.equal = true}}}, "512");
}

inline void check(Parity& parity, Case<UpdateLossScale>) {
  for (const double finite : {0.0, 1.0})
    for (const double growth_steps : {0.0, 3.0, 4.0})
      for (const double patience : {-1.0, 1.0, 2.0})
        for (const double scale : {1.0, 0x1p127}) {
          HostTensors tensors;
          const UpdateLossScale op{.growth_interval = 5, .hysteresis = 3, .scalars = tensors.uniform({kStepScalars}, DType::f64)};
          const auto set = [&](StepScalar slot, double value) { op.scalars.as<double>()[static_cast<int64_t>(slot)] = value; };
          set(StepScalar::finite, finite), set(StepScalar::growth_steps, growth_steps);
          set(StepScalar::patience, patience), set(StepScalar::loss_scale, scale);
          parity.expect(op, DType::f32, {{"scalars", {.equal = true}}},
                        fmt::format("finite {} after {}, patience {}, scale {}", finite, growth_steps, patience, scale));
        }
}

// The types of the two moments.
inline constexpr std::array<DType, 2> kMomentTypes[] = {
    {DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::f32, DType::bf16}, {DType::bf16, DType::bf16}};

inline void check(Parity& parity, Case<AdamW>) {
  constexpr int64_t kCount = 70000;  // more than one task
  const DecayRange ranges[] = {{.begin = 0, .count = 7, .weight_decay = 0.1f},
                               {.begin = 7, .count = 66000, .weight_decay = 0},
                               {.begin = 66100, .count = 3000, .weight_decay = 0.1f}};  // with a gap before and behind
  for (const DType act : kActDTypes)
    for (const bool in_place : {false, true})
      for (const auto& [first, second] : kMomentTypes)
        for (const double finite : {0.0, 1.0}) {
          if (in_place && act != DType::f32) continue;
          HostTensors tensors;
          AdamW op;
          op.ranges = ranges;
          op.grads = tensors.uniform({kCount}, DType::f32);
          op.scalars = tensors.uniform({kStepScalars}, DType::f64, 0.1, 0.9);
          op.master = tensors.uniform({kCount}, DType::f32);
          op.m = tensors.uniform({kCount}, first);
          op.v = tensors.uniform({kCount}, second, 0.5, 1);
          op.weights = in_place ? op.master : tensors.uniform({kCount}, act);
          op.scalars.as<double>()[static_cast<int64_t>(StepScalar::updates)] = 3;
          op.scalars.as<double>()[static_cast<int64_t>(StepScalar::finite)] = finite;
          if (finite == 0) op.grads.as<float>()[100] = std::numeric_limits<float>::quiet_NaN();
          // The direction is below 1 / (1 - 0.9^3) / sqrt(0.47 / (1 - 0.95^3)) < 2.1, each of its few roundings counts as a term.
          const Tolerance state{.terms = 2, .size = 1};
          const Tolerances tolerances{
              {"m", state}, {"v", state}, {"master", {.terms = 4, .size = 3}}, {"weights", {.terms = 4, .size = 3}}};
          parity.expect(op, act, finite == 0 ? Tolerances{} : tolerances,
                        fmt::format("in place {} moments {} {} finite {}", in_place, name_of(first), name_of(second), finite));
          tensors.expect_untouched_outside();
        }
}

inline void check(Parity& parity, Case<Fill>) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const int64_t count : {1, 17, 40000, (2 << 20) + 1})  // the last one is written past the cache
      for (const double value : {0.0, 1.1}) {
        if (count > 40000 && (dtype != DType::f32 || value == 0)) continue;
        HostTensors tensors;
        parity.expect(Fill{.value = value, .out = tensors.uniform({count}, dtype)}, dtype, {},
                      fmt::format("{} times {}", count, value));
        tensors.expect_untouched_outside();
      }
}

inline void check(Parity& parity, Case<Copy>) {
  for (const DType from : kActDTypes)
    for (const DType to : kActDTypes)
      for (const int64_t count : {1, 17, 40000}) {
        if (from != to && from != DType::f32 && to != DType::f32) continue;
        HostTensors tensors;
        const Copy op{.from = tensors.uniform({count}, from), .to = tensors.uniform({count}, to)};
        parity.expect(op, from, {}, fmt::format("{} to {}", count, name_of(to)));
        tensors.expect_untouched_outside();
      }
  HostTensors tensors;
  parity.expect(Copy{.from = tensors.uniform({9}, DType::f64), .to = tensors.uniform({9}, DType::f64)}, DType::f64, {}, "f64");
}

inline void check(Parity& parity, Case<Accumulate>) {
  for (const DType from : kActDTypes)
    for (const int64_t count : {1, 17, 40000}) {
      HostTensors tensors;
      const Accumulate op{.from = tensors.uniform({count}, from), .to = tensors.uniform({count}, DType::f32)};
      parity.expect(op, from, {}, fmt::format("{} {}", count, name_of(from)));
      tensors.expect_untouched_outside();
    }
}

inline void check(Parity& parity, Case<RandomNormal>) {
  for (const int64_t count : {1, 7, 40000})
    for (const int64_t first : {int64_t{0}, int64_t{5}, (int64_t{1} << 34) + 3}) {
      HostTensors tensors;
      const RandomNormal op{
          .mean = 0.5, .deviation = 2, .seed = 77, .site = 4, .first = first, .out = tensors.uniform({count}, DType::f32)};
      parity.expect(op, DType::f32, {}, fmt::format("{} from {}", count, first));
      tensors.expect_untouched_outside();
    }
}

}  // namespace trireme

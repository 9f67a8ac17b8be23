#include "model/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.h"
#include "model/embedding.h"

namespace trireme {

Generator::Generator(const ModelSettings& model, DType dtype, Backend& backend, const Mesh& mesh, const Weights& weights,
                     int64_t capacity, Arena& arena)
    : model_(model),
      backend_(backend),
      weights_(weights),
      arena_(arena),
      pass_(model, dtype, backend, mesh, weights, arena),
      capacity_(capacity) {
  const Dims d = dims_of(model, 1, capacity);
  for (int64_t layer = 0; layer < d.L; ++layer)
    caches_.push_back({.packed = arena.take({1, capacity, 2 * d.G, d.D}, dtype), .length = 0});
  arena_mark_ = arena.used();
  positions_.resize(static_cast<size_t>(capacity));
  std::iota(positions_.begin(), positions_.end(), 0);
  logits_.resize(static_cast<size_t>(d.V));
}

std::span<const float> Generator::feed(std::span<const int32_t> tokens) {
  const Dims d = dims_of(model_, 1, static_cast<int64_t>(tokens.size()));
  CHECK(d.T > 0 && length_ + d.T <= capacity_);
  arena_.rewind(arena_mark_);
  const auto positions = std::span(positions_).subspan(static_cast<size_t>(length_), tokens.size());
  const Context context = pass_.begin(d, tokens, positions);
  length_ += d.T;
  const PendingSum stream =
      pass_.forward(context, {.residual = embedding_forward(context, weights_.acquire_embedding())}, caches_);
  const Tensor logits = next_logits(context, stream);
  backend_.download(kCompute, logits.reshaped({d.V_padded}).rows(0, d.V), logits_.data());
  backend_.synchronize(backend_.record(kCompute, "logits_read"));
  return logits_;
}

Tensor Generator::next_logits(const Context& context, const PendingSum& stream) {
  const Dims& d = context.dims;
  const HeadParameters& head = weights_.acquire_head();
  const bool has_mean = model_.normalization != Normalization::rmsnorm;
  const Tensor normed = context.take("final_normed", {d.R, d.C});
  context.backend.run(kCompute, ResidualNormForward{.kind = norm_kind(model_.normalization),
                                                    .epsilon = static_cast<float>(model_.layernorm_epsilon),
                                                    .residual = stream.residual,
                                                    .branch = stream.branch,
                                                    .branch2 = stream.branch2,
                                                    .weight = head.norm_weight,
                                                    .bias = head.norm_bias,
                                                    .sum = context.take("final_sum", {d.R, d.C}),
                                                    .out = normed,
                                                    .mean = has_mean ? context.take_f32("final_mean", {d.R}) : Tensor{},
                                                    .rstd = context.take_f32("final_rstd", {d.R})});
  const Tensor logits = arena_.take({1, d.V_padded}, context.dtype), wide = arena_.take({1, d.V_padded}, DType::f32);
  context.linear.column_forward({}, {.x = normed.rows(d.T - 1, 1), .weight = head.head, .out = logits});
  context.backend.run(kCompute, Copy{.from = logits, .to = wide});
  return wide;
}

int32_t sample_token(std::span<const float> logits, const SamplingSettings& settings, int64_t position) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (settings.temperature <= 0) return *std::min_element(order.begin(), order.end(), likelier);
  std::sort(order.begin(), order.end(), likelier);
  if (settings.top_k > 0 && settings.top_k < static_cast<int64_t>(order.size()))
    order.resize(static_cast<size_t>(settings.top_k));

  std::vector<double> weights;
  double total = 0;
  for (const int32_t token : order) {
    const double distance =
        static_cast<double>(logits[static_cast<size_t>(token)]) - static_cast<double>(logits[static_cast<size_t>(order[0])]);
    weights.push_back(std::exp(distance / settings.temperature));
    total += weights.back();
  }
  // The smallest set of the likeliest tokens that holds top_p of the probability.
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < settings.top_p * total)) kept += weights[count++];

  const uint32_t bits = philox(settings.seed, {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0})[0];
  double draw = uniform_open(bits) * kept;
  for (size_t i = 0; i + 1 < count; ++i) {
    draw -= weights[i];
    if (draw < 0) return order[i];
  }
  return order[count - 1];
}

}  // namespace trireme

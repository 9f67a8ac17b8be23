#include "evaluate/batches.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

// Lengths are rounded up to this, so that GEMMs have few different shapes.
constexpr int64_t kLengthMultiple = 16;

}  // namespace

std::vector<RequestBatch> plan_batches(std::span<const ScoringRequest> requests, std::vector<size_t> pending,
                                       const BatchLimits& limits) {
  std::ranges::sort(pending, [&](size_t a, size_t b) {
    const auto &x = requests[a].tokens, &y = requests[b].tokens;
    if (x.size() != y.size()) return x.size() > y.size();
    return x != y ? x < y : a < b;
  });
  std::vector<RequestBatch> batches;
  for (const size_t request : pending) {
    const auto& tokens = requests[request].tokens;
    const bool shares = !batches.empty() && requests[batches.back().requests.back()].tokens == tokens;
    if (!shares && (batches.empty() || (batches.back().shape.B + 1) * batches.back().shape.T > limits.tokens)) {
      batches.emplace_back();
      batches.back().shape.T = std::min(round_up(std::ssize(tokens), kLengthMultiple), limits.length);
    }
    RequestBatch& batch = batches.back();
    if (!shares || batch.requests.empty()) ++batch.shape.B;
    batch.requests.push_back(request);
    batch.sequences.push_back(static_cast<size_t>(batch.shape.B - 1));
    batch.shape.M += std::ssize(requests[request].targets);
  }
  return batches;
}

ScoringBatch make_batch(std::span<const ScoringRequest> requests, const RequestBatch& planned) {
  const ScoringShape& shape = planned.shape;
  ScoringBatch batch{.B = shape.B, .T = shape.T, .tokens = {}, .rows = {}, .targets = {}};
  batch.tokens.assign(static_cast<size_t>(shape.B * shape.T), 0);
  for (size_t i = 0; i < planned.requests.size(); ++i) {
    const ScoringRequest& request = requests[planned.requests[i]];
    const size_t begin = planned.sequences[i] * static_cast<size_t>(shape.T);
    std::ranges::copy(request.tokens, batch.tokens.begin() + static_cast<int64_t>(begin));
    for (size_t t = 0; t < request.targets.size(); ++t) batch.rows.push_back(narrow<int32_t>(begin + request.first_row() + t));
    batch.targets.insert(batch.targets.end(), request.targets.begin(), request.targets.end());
  }
  return batch;
}

std::vector<RequestScore> request_scores(std::span<const ScoringRequest> requests, const RequestBatch& planned,
                                         std::span<const TokenScore> rows) {
  std::vector<RequestScore> scores;
  auto row = rows.begin();
  for (const size_t request : planned.requests) {
    RequestScore score{.log_likelihood = 0, .is_greedy = true};
    for (size_t t = 0; t < requests[request].targets.size(); ++t, ++row) {
      score.log_likelihood += static_cast<double>(row->log_likelihood);
      score.is_greedy = score.is_greedy && row->is_likeliest;
    }
    scores.push_back(score);
  }
  return scores;
}

}  // namespace trireme

// Requests sorted by length and put together, so that little of a pass is padding.
#pragma once

#include <span>
#include <vector>

#include "evaluate/samples.h"
#include "evaluate/scoring_model.h"

namespace trireme {

struct RequestBatch {
  std::vector<size_t> requests;
  std::vector<size_t> sequences;  // of each: requests that read the same tokens share one
  ScoringShape shape;
};

struct BatchLimits {
  int64_t tokens = 0;  // B*T of a batch
  int64_t length = 0;  // T: what the model reads at once
};

// The longest first: if a batch does not fit, the first one shows it.
std::vector<RequestBatch> plan_batches(std::span<const ScoringRequest> requests, std::vector<size_t> pending,
                                       const BatchLimits& limits);

ScoringBatch make_batch(std::span<const ScoringRequest> requests, const RequestBatch& planned);

// The scores of the batch's requests, from those of its rows.
std::vector<RequestScore> request_scores(std::span<const ScoringRequest> requests, const RequestBatch& planned,
                                         std::span<const TokenScore> rows);

}  // namespace trireme

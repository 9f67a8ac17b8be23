#include "data/batch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "data/checked_math.h"

namespace trireme {

Batch::Batch(int64_t B, int64_t T) : micro_batch(B), sequence(T) {
  CHECK(B >= 1 && T >= 1 && T <= std::numeric_limits<int32_t>::max());
  const auto rows = static_cast<size_t>(checked_multiply(B, T, "model.micro_batch_size * model.encoder_seq_length"));
  tokens.resize(rows);
  targets.resize(rows);
  positions.resize(rows);
  row_keys.resize(rows);
  for (auto sample = positions.begin(); sample != positions.end(); sample += T) std::iota(sample, sample + T, 0);
}

void fill_batch(const Dataset& dataset, int64_t first_sample, Batch& batch) {
  CHECK_EQ(dataset.sequence(), batch.sequence);
  CHECK(0 <= first_sample && first_sample <= dataset.size() - batch.micro_batch);
  constexpr const char* kWhat = "samples * model.encoder_seq_length";
  const int64_t first_key = checked_multiply(first_sample, batch.sequence, kWhat);
  checked_add(first_key, std::ssize(batch.row_keys), kWhat);

  const auto T = static_cast<size_t>(batch.sequence);
  for (int64_t b = 0; b < batch.micro_batch; ++b) {
    const size_t row = static_cast<size_t>(b) * T;
    dataset.sample(first_sample + b, std::span(batch.tokens).subspan(row, T), std::span(batch.targets).subspan(row, T));
  }
  std::iota(batch.row_keys.begin(), batch.row_keys.end(), first_key);
  batch.first_sample = first_sample;
  batch.unmasked_targets = std::ssize(batch.targets) - std::ranges::count(batch.targets, kMaskedTarget);
}

}  // namespace trireme

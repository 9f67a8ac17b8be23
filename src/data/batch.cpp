#include "data/batch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "data/checked_math.h"

namespace trireme {
namespace {

template <class T>
void count_from(std::span<T> numbers, T first) {
  std::iota(numbers.begin(), numbers.end(), first);
}

}  // namespace

Batch::Batch(int64_t B, int64_t T, SequenceCut sequence_cut) : micro_batch(B), sequence(T), cut(sequence_cut) {
  CHECK(B >= 1 && T >= 1 && T <= std::numeric_limits<int32_t>::max());
  CHECK(0 <= cut.rank && cut.rank < cut.ranks);
  const int64_t whole = checked_multiply(B, T, "model.micro_batch_size * model.encoder_seq_length");
  const auto rows = static_cast<size_t>(div_exact(whole, cut.ranks));
  tokens.resize(rows);
  targets.resize(rows);
  positions.resize(rows);
  row_keys.resize(rows);
}

void fill_batch(const Dataset& dataset, int64_t first_sample, Batch& batch) {
  const int64_t B = batch.micro_batch, T = batch.sequence;
  CHECK_EQ(dataset.sequence(), T);
  CHECK(0 <= first_sample && first_sample <= dataset.size() - B);
  constexpr const char* kWhat = "samples * model.encoder_seq_length";
  checked_add(checked_multiply(first_sample, T, kWhat), B * T, kWhat);

  const int64_t length = batch.cut.part_length(T);
  int64_t row = 0;
  const auto part_of = [&](auto& rows) { return std::span(rows).subspan(static_cast<size_t>(row), static_cast<size_t>(length)); };
  for (int64_t held = 0; held < batch.cut.parts_held(); ++held)
    for (int64_t sample = first_sample; sample < first_sample + B; ++sample, row += length) {
      const int64_t first = batch.cut.part_number(held) * length;
      dataset.sample_part(sample, first, part_of(batch.tokens), part_of(batch.targets));
      count_from(part_of(batch.positions), static_cast<int32_t>(first));
      count_from(part_of(batch.row_keys), sample * T + first);
    }
  batch.first_sample = first_sample;
  batch.unmasked_targets = std::ssize(batch.targets) - std::ranges::count(batch.targets, kMaskedTarget);
}

}  // namespace trireme

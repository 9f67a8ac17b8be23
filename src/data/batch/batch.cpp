#include "data/batch/batch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "base/checked_math.h"
#include "base/error.h"

namespace trireme {
namespace {

template <class T>
void count_from(std::span<T> numbers, T first) {
  std::iota(numbers.begin(), numbers.end(), first);
}

// Returns the position in the sample at which the document of token `first` starts. Reads all tokens before `first`.
int32_t start_of_document(const Dataset& dataset, int64_t sample, int64_t first, Batch& batch) {
  if (first == 0) return 0;
  const auto count = static_cast<size_t>(first);
  const std::span<int32_t> tokens = std::span(batch.earlier).first(count),
                           targets = std::span(batch.earlier).subspan(count, count);
  dataset.sample_part(sample, 0, tokens, targets);
  for (int64_t i = first; i > 0; --i)
    if (tokens[static_cast<size_t>(i - 1)] == batch.documents.end_token) return static_cast<int32_t>(i);
  return 0;
}

// `start` is the position at which the document of tokens[0] starts. `first` is the position of tokens[0] in the sample.
void fill_starts(int32_t start, int32_t first, std::span<const int32_t> tokens, const DocumentRules& rules,
                 std::span<int32_t> starts, std::span<int32_t> positions) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t place = first + static_cast<int32_t>(i);
    starts[i] = start;
    if (rules.resets_positions) positions[i] = place - start;
    if (tokens[i] == rules.end_token) start = place + 1;
  }
}

}  // namespace

Batch::Batch(int64_t B, int64_t T, SequenceCut sequence_cut, DocumentRules document_rules)
    : micro_batch(B), sequence(T), cut(sequence_cut), documents(document_rules) {
  CHECK(B >= 1 && T >= 1 && T <= std::numeric_limits<int32_t>::max());
  CHECK(0 <= cut.rank && cut.rank < cut.ranks);
  const int64_t whole = checked_multiply(B, T, "model.micro_batch_size * model.encoder_seq_length");
  const auto rows = static_cast<size_t>(div_exact(whole, cut.ranks));
  tokens.resize(rows);
  targets.resize(rows);
  positions.resize(rows);
  row_keys.resize(rows);
  if (documents.needs_starts()) document_starts.resize(rows);
  if (documents.needs_starts() && cut.ranks > 1) earlier.resize(static_cast<size_t>(2 * T));
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
      if (batch.documents.needs_starts())
        fill_starts(start_of_document(dataset, sample, first, batch), static_cast<int32_t>(first), part_of(batch.tokens),
                    batch.documents, part_of(batch.document_starts), part_of(batch.positions));
    }
  if (batch.documents.masks_loss)
    for (size_t i = 0; i < batch.tokens.size(); ++i)
      if (batch.tokens[i] == batch.documents.end_token) batch.targets[i] = kMaskedTarget;
  batch.first_sample = first_sample;
  batch.unmasked_targets = std::ssize(batch.targets) - std::ranges::count(batch.targets, kMaskedTarget);
}

}  // namespace trireme

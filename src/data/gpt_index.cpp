#include "data/gpt_index.h"

#include <limits>
#include <numeric>

#include "base/error.h"
#include "data/checked_math.h"
#include "data/numpy_random.h"

namespace trireme {
namespace {

constexpr const char* kTokensWanted = "trainer.max_steps * model.global_batch_size samples of model.encoder_seq_length tokens";

// How many epochs, and how many samples in all and before the last epoch.
struct Epochs {
  int64_t count = 1;
  int64_t samples = 0;
  int64_t samples_before_last = 0;  // the sample that straddles the boundary belongs to the last epoch
  bool separate_last = false;
};

Epochs plan_epochs(int64_t tokens_per_epoch, int64_t sequence, int64_t samples_needed) {
  const int64_t tokens_needed = checked_add(checked_multiply(samples_needed, sequence, kTokensWanted), 1, kTokensWanted);
  Epochs epochs;
  epochs.count = (tokens_needed - 1) / tokens_per_epoch + 1;
  epochs.samples = (checked_multiply(epochs.count, tokens_per_epoch, kTokensWanted) - 1) / sequence;
  if (epochs.samples > int64_t{std::numeric_limits<uint32_t>::max()})
    throw UserError("{}: {} samples are more than an index can number (4294967295)", kTokensWanted, epochs.samples);
  if (epochs.count == 1) return epochs;

  epochs.samples_before_last = ((epochs.count - 1) * tokens_per_epoch - 1) / sequence;
  const int64_t samples_from_last = samples_needed - epochs.samples_before_last;
  const int64_t samples_per_epoch = (tokens_per_epoch - 1) / sequence;
  epochs.separate_last = samples_from_last < static_cast<int64_t>(0.80 * static_cast<double>(samples_per_epoch));
  return epochs;
}

std::vector<int32_t> make_document_index(Range documents, const Epochs& epochs, NumpyRandomState& random) {
  const int64_t entries = checked_multiply(documents.count(), epochs.count, "documents * epochs");
  std::vector<int32_t> index(static_cast<size_t>(entries));
  for (size_t i = 0; i < index.size(); ++i)
    index[i] = narrow<int32_t>(documents.begin + static_cast<int64_t>(i) % documents.count());
  const std::span<int32_t> all(index);
  const size_t last_epoch = index.size() - static_cast<size_t>(documents.count());
  if (epochs.separate_last) {
    random.shuffle(all.first(last_epoch));
    random.shuffle(all.subspan(last_epoch));
  } else {
    random.shuffle(all);
  }
  return index;
}

// Each sample takes sequence + 1 tokens and the next one begins at its last token. Cannot run past the last document, because
// the samples were counted from the same tokens.
std::vector<TokenPosition> make_sample_index(std::span<const int64_t> document_lengths, std::span<const int32_t> document_index,
                                             int64_t samples, int64_t sequence) {
  std::vector<TokenPosition> index;
  index.reserve(static_cast<size_t>(samples) + 1);
  TokenPosition at;
  index.push_back(at);
  for (int64_t sample = 0; sample < samples; ++sample) {
    int64_t remaining = sequence + 1;
    while (true) {
      const int32_t document = document_index[static_cast<size_t>(at.document_position)];
      const int64_t available = document_lengths[static_cast<size_t>(document)] - at.offset;
      if (remaining <= available) break;
      remaining -= available;
      at = {at.document_position + 1, 0};
    }
    at.offset += remaining - 1;
    index.push_back(at);
  }
  return index;
}

std::vector<uint32_t> make_shuffle_index(const Epochs& epochs, NumpyRandomState& random) {
  std::vector<uint32_t> index(static_cast<size_t>(epochs.samples));
  std::iota(index.begin(), index.end(), 0u);
  const std::span<uint32_t> all(index);
  if (epochs.separate_last) {
    const size_t last_epoch = static_cast<size_t>(epochs.samples_before_last);
    random.shuffle(all.first(last_epoch));
    random.shuffle(all.subspan(last_epoch));
  } else {
    random.shuffle(all);
  }
  return index;
}

}  // namespace

GptIndex build_gpt_index(std::span<const int64_t> document_lengths, Range documents, int64_t sequence, int64_t samples_needed,
                         uint64_t seed) {
  CHECK(0 <= documents.begin && documents.begin <= documents.end);
  CHECK(documents.end <= static_cast<int64_t>(document_lengths.size()) && documents.end <= std::numeric_limits<int32_t>::max());
  CHECK(sequence >= 1 && samples_needed >= 0);
  if (seed > std::numeric_limits<uint32_t>::max())
    throw UserError("model.seed={} is too large: the order of the samples takes seeds up to 4294967295", seed);

  GptIndex index;
  for (const int64_t length :
       document_lengths.subspan(static_cast<size_t>(documents.begin), static_cast<size_t>(documents.count()))) {
    CHECK(length >= 0);
    index.tokens_per_epoch = checked_add(index.tokens_per_epoch, length, "tokens of the corpus");
  }
  CHECK(index.tokens_per_epoch > 0);
  const Epochs epochs = plan_epochs(index.tokens_per_epoch, sequence, samples_needed);
  index.epochs = epochs.count;
  index.separate_last_epoch = epochs.separate_last;

  // One generator for both shuffles, documents first.
  NumpyRandomState random(static_cast<uint32_t>(seed));
  index.document_index = make_document_index(documents, epochs, random);
  index.sample_index = make_sample_index(document_lengths, index.document_index, epochs.samples, sequence);
  index.shuffle_index = make_shuffle_index(epochs, random);
  return index;
}

}  // namespace trireme

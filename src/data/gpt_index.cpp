#include "data/gpt_index.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "data/checked_math.h"
#include "data/numpy_random.h"

namespace trireme {
namespace {

constexpr const char* kTokensWanted = "trainer.max_steps * model.global_batch_size samples of model.encoder_seq_length tokens";
constexpr int64_t kMostInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostSamples = int64_t{1} << 36;  // a terabyte of index
constexpr int64_t kMostUint32 = std::numeric_limits<uint32_t>::max();

// The reference keeps a partial last sample when this is rounded up, in 32-bit floating-point numbers. Far beyond 2^24 samples
// that is not exact, and must not be here either.
int64_t samples_rounded_up(int64_t tokens, int64_t sequence) {
  return static_cast<int64_t>(std::ceil(static_cast<float>(tokens) / static_cast<float>(sequence)));
}

void fill_document_index(std::span<int32_t> index, const GptIndexRequest& request, const GptIndexPlan& plan,
                         NumpyRandomState& random) {
  const Range documents = request.documents;
  for (size_t epoch = 0; epoch < index.size(); epoch += static_cast<size_t>(documents.count()))
    std::iota(index.begin() + static_cast<int64_t>(epoch), index.begin() + static_cast<int64_t>(epoch) + documents.count(),
              static_cast<int32_t>(documents.begin));
  if (request.shuffle_documents == ShuffleDocuments::no) return;
  const size_t last_epoch = plan.separate_last_epoch ? index.size() - static_cast<size_t>(documents.count()) : index.size();
  random.shuffle(index.first(last_epoch));
  random.shuffle(index.subspan(last_epoch));
}

// Walks over the documents in shuffled order. Each sample takes sequence + extra tokens and the next one begins where its own
// tokens end, `extra` before.
template <class Number>
void fill_sample_index(std::span<Number> index, DocumentLengths lengths, std::span<const int32_t> document_index,
                       const GptIndexRequest& request) {
  constexpr size_t kAhead = 32;  // documents come in random order, so their lengths are fetched in time
  const int64_t extra = request.extra();
  size_t at = 0;
  int64_t offset = 0;
  for (size_t entry = 2; entry < index.size(); entry += 2) {  // the first sample begins at (0, 0)
    int64_t remaining = request.sequence + extra;
    while (remaining != 0) {
      if (at + kAhead < document_index.size()) lengths.prefetch(document_index[at + kAhead]);
      const int64_t available = lengths[document_index[at]] - offset;
      if (remaining <= available) {
        offset += remaining - extra;
        break;
      }
      remaining -= available;
      if (at + 1 == document_index.size()) {  // a last sample that is not full
        offset = lengths[document_index[at]] - extra;
        break;
      }
      ++at;
      offset = 0;
    }
    index[entry] = static_cast<Number>(at);
    index[entry + 1] = static_cast<Number>(offset);
  }
}

template <class Number>
void fill_shuffle_index(std::span<Number> index, const GptIndexPlan& plan, NumpyRandomState& random) {
  std::iota(index.begin(), index.end(), Number{0});
  const size_t last_epoch = plan.separate_last_epoch ? static_cast<size_t>(plan.samples_before_last) : index.size();
  random.shuffle(index.first(last_epoch));
  random.shuffle(index.subspan(last_epoch));
}

}  // namespace

int64_t count_tokens(DocumentLengths lengths, Range documents) {
  int64_t tokens = 0;
  for (int64_t document = documents.begin; document < documents.end; ++document) {
    if (lengths[document] < 0)
      throw UserError("document {} has {} tokens; run trireme data verify on the dataset", document, lengths[document]);
    tokens = checked_add(tokens, lengths[document], "tokens of the corpus");
  }
  return tokens;
}

GptIndexPlan plan_gpt_index(const GptIndexRequest& request, int64_t tokens_per_epoch) {
  const int64_t sequence = request.sequence, extra = request.extra(), documents = request.documents.count();
  CHECK(tokens_per_epoch > 0 && sequence >= 1 && request.samples_needed >= 0 && documents >= 1);
  if (request.documents.end > kMostInt32)
    throw UserError("a dataset of {} documents is too large: its index can number {}; split it", request.documents.end,
                    kMostInt32);
  GptIndexPlan plan{.tokens_per_epoch = tokens_per_epoch};
  const int64_t wanted = checked_add(checked_multiply(request.samples_needed, sequence, kTokensWanted), extra, kTokensWanted);
  plan.epochs = std::max<int64_t>((wanted - 1) / tokens_per_epoch + 1, 1);
  const int64_t tokens = checked_multiply(plan.epochs, tokens_per_epoch, kTokensWanted) - extra;
  plan.samples = request.last_sample == LastSample::drop ? tokens / sequence : samples_rounded_up(tokens, sequence);
  if (std::max(plan.samples, plan.epochs) > kMostSamples)
    throw UserError("{}: {} samples in {} epochs are more than an index can hold ({})", kTokensWanted, plan.samples, plan.epochs,
                    kMostSamples);
  if (plan.epochs > 1) {
    plan.samples_before_last = ((plan.epochs - 1) * tokens_per_epoch - extra) / sequence;
    const int64_t samples_from_last = request.samples_needed - plan.samples_before_last;
    const int64_t samples_per_epoch = (tokens_per_epoch - extra) / sequence;
    plan.separate_last_epoch = samples_from_last < static_cast<int64_t>(0.80 * static_cast<double>(samples_per_epoch));
  }
  const int64_t entries = checked_multiply(documents, plan.epochs, "documents * epochs");
  plan.document_index = {.type = NumberType::int32, .rows = entries, .columns = 0};
  plan.sample_index = {
      .type = entries <= kMostInt32 ? NumberType::int32 : NumberType::int64, .rows = plan.samples + 1, .columns = 2};
  plan.shuffle_index = {
      .type = plan.samples < kMostUint32 - 1 ? NumberType::uint32 : NumberType::int64, .rows = plan.samples, .columns = 0};
  return plan;
}

GptIndex build_gpt_index(DocumentLengths lengths, const GptIndexRequest& request, const GptIndexPaths& paths) {
  CHECK(0 <= request.documents.begin && request.documents.begin < request.documents.end);
  CHECK(request.documents.end <= lengths.size());
  if (request.seed > kMostUint32)
    throw UserError("model.seed={} is too large: the order of the samples takes seeds up to 4294967295", request.seed);
  GptIndex index;
  index.plan = plan_gpt_index(request, count_tokens(lengths, request.documents));

  // One generator for both shuffles, documents first.
  NumpyRandomState random(static_cast<uint32_t>(request.seed));
  struct Arrays {
    NewNumbers documents, samples, shuffle;
  };
  const auto arrays = std::make_shared<Arrays>(Arrays{.documents = NewNumbers(paths.document_index, index.plan.document_index),
                                                      .samples = NewNumbers(paths.sample_index, index.plan.sample_index),
                                                      .shuffle = NewNumbers(paths.shuffle_index, index.plan.shuffle_index)});
  const std::span<int32_t> documents = arrays->documents.as<int32_t>();
  fill_document_index(documents, request, index.plan, random);
  if (index.plan.sample_index.type == NumberType::int32)
    fill_sample_index(arrays->samples.as<int32_t>(), lengths, documents, request);
  else
    fill_sample_index(arrays->samples.as<int64_t>(), lengths, documents, request);
  if (index.plan.shuffle_index.type == NumberType::uint32)
    fill_shuffle_index(arrays->shuffle.as<uint32_t>(), index.plan, random);
  else
    fill_shuffle_index(arrays->shuffle.as<int64_t>(), index.plan, random);
  arrays->documents.commit();
  arrays->samples.commit();
  arrays->shuffle.commit();
  index.document_index = arrays->documents.numbers();
  index.sample_index = arrays->samples.numbers();
  index.shuffle_index = arrays->shuffle.numbers();
  index.storage = arrays;
  return index;
}

}  // namespace trireme

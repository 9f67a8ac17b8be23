#include "data/samples/gpt_index.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "base/checked_math.h"
#include "base/error.h"
#include "data/numpy/numpy_random.h"

namespace trireme {
namespace {

constexpr const char* kTokensWanted = "trainer.max_steps * model.global_batch_size samples of model.encoder_seq_length tokens";
constexpr int64_t kMostUint16 = std::numeric_limits<uint16_t>::max();
constexpr int64_t kMostInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostSamples = int64_t{1} << 36;  // an index of one terabyte
constexpr int64_t kMostUint32 = std::numeric_limits<uint32_t>::max();

// The reference keeps an incomplete last sample by rounding up this quotient in 32-bit floats. That is not exact far beyond 2^24
// samples, and must not be exact here either.
int64_t samples_rounded_up(int64_t tokens, int64_t sequence) {
  return static_cast<int64_t>(std::ceil(static_cast<float>(tokens) / static_cast<float>(sequence)));
}

template <class Document>
void fill_document_index(std::span<Document> index, const GptIndexRequest& request, const GptIndexPlan& plan,
                         NumpyRandomState& random) {
  const auto documents = static_cast<size_t>(request.documents.count());
  for (size_t epoch = 0; epoch < index.size(); epoch += documents)
    std::iota(&index[epoch], &index[epoch] + documents, static_cast<Document>(request.documents.begin));
  if (request.shuffle_documents == ShuffleDocuments::no) return;
  const size_t last_epoch = plan.separate_last_epoch ? index.size() - documents : index.size();
  random.shuffle(index.first(last_epoch));
  random.shuffle(index.subspan(last_epoch));
}

// Walks the documents in shuffled order. Each sample takes sequence + extra tokens; the next one starts `extra` tokens before its
// end.
template <class Document>
class SampleWalk {
 public:
  SampleWalk(DocumentLengths lengths, std::span<const Document> documents, const GptIndexRequest& request)
      : lengths_(lengths), documents_(documents), sequence_(request.sequence), extra_(request.extra()) {}

  TokenPosition after(TokenPosition at) const {
    auto& [position, offset] = at;
    for (int64_t remaining = sequence_ + extra_; remaining != 0;) {
      if (position + kAhead < std::ssize(documents_)) lengths_.prefetch(document(position + kAhead));
      const int64_t available = lengths_[document(position)] - offset;
      if (remaining <= available) {
        offset += remaining - extra_;
        break;
      }
      remaining -= available;
      if (position + 1 == std::ssize(documents_)) {  // an incomplete last sample
        offset = lengths_[document(position)] - extra_;
        break;
      }
      ++position;
      offset = 0;
    }
    return at;
  }

 private:
  static constexpr int64_t kAhead = 32;  // documents are in random order, so their lengths are prefetched

  int64_t document(int64_t position) const { return documents_[static_cast<size_t>(position)]; }

  DocumentLengths lengths_;
  std::span<const Document> documents_;
  int64_t sequence_, extra_;
};

template <class Number, class Document>
void fill_sample_index(std::span<Number> index, int64_t stride, int64_t samples, const SampleWalk<Document>& walk) {
  TokenPosition at;
  for (int64_t sample = 0;; ++sample, at = walk.after(at)) {
    if (sample % stride == 0) {
      const auto entry = static_cast<size_t>(2 * (sample / stride));
      index[entry] = static_cast<Number>(at.document_position);
      index[entry + 1] = static_cast<Number>(at.offset);
    }
    if (sample == samples) return;
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

namespace {

template <class Document>
void fill_documents_and_samples(NewNumbers& document_index, NewNumbers& sample_index, int64_t stride, const GptIndexPlan& plan,
                                DocumentLengths lengths, const GptIndexRequest& request, NumpyRandomState& random) {
  const std::span<Document> documents = document_index.as<Document>();
  fill_document_index(documents, request, plan, random);
  const SampleWalk<Document> walk(lengths, documents, request);
  if (plan.sample_index.type == NumberType::int32)
    fill_sample_index(sample_index.as<int32_t>(), stride, plan.samples, walk);
  else
    fill_sample_index(sample_index.as<int64_t>(), stride, plan.samples, walk);
}

template <class Document>
TokenPosition walk_on(TokenPosition at, int64_t samples, const NumberArray& documents, DocumentLengths lengths,
                      const GptIndexRequest& request) {
  const std::span<const Document> numbers(reinterpret_cast<const Document*>(documents.data()),
                                          static_cast<size_t>(documents.size()));
  const SampleWalk<Document> walk(lengths, numbers, request);
  for (; samples > 0; --samples) at = walk.after(at);
  return at;
}

}  // namespace

TokenPosition GptIndex::position(int64_t index, DocumentLengths lengths, const GptIndexRequest& request) const {
  const int64_t entry = 2 * (index / stride);
  const TokenPosition begin{sample_index[entry], sample_index[entry + 1]};
  if (document_index.type() == NumberType::uint16)
    return walk_on<uint16_t>(begin, index % stride, document_index, lengths, request);
  return walk_on<int32_t>(begin, index % stride, document_index, lengths, request);
}

GptIndex build_gpt_index(DocumentLengths lengths, const GptIndexRequest& request, IndexForm form, const GptIndexPaths& paths) {
  CHECK(0 <= request.documents.begin && request.documents.begin < request.documents.end);
  CHECK(request.documents.end <= lengths.size());
  if (request.seed > kMostUint32)
    throw UserError("model.seed={} is too large: the order of the samples takes seeds up to 4294967295", request.seed);
  GptIndex index;
  index.plan = plan_gpt_index(request, count_tokens(lengths, request.documents));
  NpyShape document_shape = index.plan.document_index, sample_shape = index.plan.sample_index;
  if (form == IndexForm::compact) {
    constexpr int64_t kStride = 64;
    index.stride = kStride;
    sample_shape.rows = index.plan.samples / kStride + 1;
    if (request.documents.end <= kMostUint16) document_shape.type = NumberType::uint16;
  }

  // One generator for both shuffles, documents first.
  NumpyRandomState random(static_cast<uint32_t>(request.seed));
  struct Arrays {
    NewNumbers documents, samples, shuffle;
  };
  const auto arrays = std::make_shared<Arrays>(Arrays{.documents = NewNumbers(paths.document_index, document_shape),
                                                      .samples = NewNumbers(paths.sample_index, sample_shape),
                                                      .shuffle = NewNumbers(paths.shuffle_index, index.plan.shuffle_index)});
  const auto fill =
      document_shape.type == NumberType::uint16 ? fill_documents_and_samples<uint16_t> : fill_documents_and_samples<int32_t>;
  fill(arrays->documents, arrays->samples, index.stride, index.plan, lengths, request, random);
  arrays->documents.commit();
  arrays->samples.commit();
  if (index.plan.shuffle_index.type == NumberType::uint32)
    fill_shuffle_index(arrays->shuffle.as<uint32_t>(), index.plan, random);
  else
    fill_shuffle_index(arrays->shuffle.as<int64_t>(), index.plan, random);
  arrays->shuffle.commit();
  index.document_index = arrays->documents.numbers();
  index.sample_index = arrays->samples.numbers();
  index.shuffle_index = arrays->shuffle.numbers();
  index.storage = arrays;
  return index;
}

}  // namespace trireme

#include "data/open_dataset.h"

#include <limits>

#include "base/error.h"
#include "data/byte_tokenizer.h"
#include "data/gpt_dataset.h"
#include "data/mock_data.h"
#include "data/text_corpus.h"
#include "data/text_files.h"

namespace trireme {
namespace {

enum class DataKind : uint8_t { mock, mock_legacy, text };

DataKind kind_of(const DataSettings& settings) {
  if (settings.data_impl == "mock") return DataKind::mock;
  if (settings.data_impl == "mock_legacy") return DataKind::mock_legacy;
  if (settings.data_impl == "text") return DataKind::text;
  throw UserError("model.data.data_impl={} is not known; use mock, mock_legacy or text", settings.data_impl);
}

std::unique_ptr<Dataset> over_corpus(std::unique_ptr<const Corpus> corpus, Range documents, int64_t vocabulary, int64_t sequence,
                                     int64_t samples_needed, uint64_t seed) {
  GptIndex index = build_gpt_index(corpus->document_lengths(), documents, sequence, samples_needed, seed);
  return std::make_unique<GptDataset>(std::move(corpus), std::move(index), sequence, vocabulary);
}

std::unique_ptr<Dataset> open_mock(int64_t vocabulary, Split split, int64_t sequence, int64_t samples_needed, uint64_t seed) {
  auto corpus = std::make_unique<MockCorpus>(vocabulary);
  const auto documents = static_cast<int64_t>(corpus->document_lengths().size());
  const Range owned = split_range(parse_splits("1,1,1"), split, documents);
  return over_corpus(std::move(corpus), owned, vocabulary, sequence, samples_needed, seed);
}

std::unique_ptr<Dataset> open_text(const DataSettings& settings, int64_t vocabulary, Split split, int64_t sequence,
                                   int64_t samples_needed, uint64_t seed) {
  const ByteTokenizer tokenizer;
  if (vocabulary < tokenizer.vocabulary())
    throw UserError("model.vocab_size={} is too small for text read as bytes; use 0 or at least {}", vocabulary,
                    tokenizer.vocabulary());
  const SplitFractions fractions = parse_splits(settings.splits_string);
  auto corpus = std::make_unique<TextCorpus>(find_text_files(settings.data_prefix), tokenizer, fractions, split);
  if (corpus->tokens() <= sequence)
    throw UserError(
        "model.data.splits_string={} leaves {} tokens of text for {}, but one sample takes model.encoder_seq_length + 1 = "
        "{}; give {} a larger share or more text",
        settings.splits_string, corpus->tokens(), name_of(split), sequence + 1, name_of(split));
  const auto documents = static_cast<int64_t>(corpus->document_lengths().size());
  return over_corpus(std::move(corpus), {0, documents}, vocabulary, sequence, samples_needed, seed);
}

}  // namespace

int64_t default_vocabulary(const DataSettings& settings) {
  return kind_of(settings) == DataKind::text ? ByteTokenizer().vocabulary() : kMockVocabulary;
}

std::unique_ptr<Dataset> open_dataset(const DataSettings& settings, int64_t vocab_size, Split split, int64_t sequence,
                                      int64_t samples_needed, uint64_t seed) {
  constexpr int64_t kLongestSequence = std::numeric_limits<int32_t>::max();  // positions are int32
  if (sequence < 1 || sequence > kLongestSequence)
    throw UserError("model.encoder_seq_length={} is not possible; use 1 to {}", sequence, kLongestSequence);
  CHECK(samples_needed >= 0);
  const int64_t vocabulary = vocab_size == 0 ? default_vocabulary(settings) : vocab_size;
  switch (kind_of(settings)) {
    case DataKind::mock:
      return open_mock(vocabulary, split, sequence, samples_needed, seed);
    case DataKind::mock_legacy:
      return std::make_unique<LegacyMockDataset>(samples_needed, sequence, vocabulary, seed);
    case DataKind::text:
      return open_text(settings, vocabulary, split, sequence, samples_needed, seed);
  }
  CHECK_NEVER("every kind of data returns above");
  return nullptr;
}

}  // namespace trireme

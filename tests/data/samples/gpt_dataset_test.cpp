// Samples from documents: the usual ones, those without an extra token, and a last one that is not full.
#include "data/samples/gpt_dataset.h"

#include <gtest/gtest.h>

#include "data/dataset_fixture.h"
#include "data/expect_user_error.h"
#include "data/indexed/indexed_dataset.h"

namespace trireme {
namespace {

using Int32s = std::vector<int32_t>;

// Documents 0 1 2 | 10 11 | (none) | 20 21 22 23 24: ten tokens.
std::shared_ptr<const IndexedDataset> four_documents(const TemporaryFolder& folder) {
  const std::string prefix = (folder / "four").string();
  IndexedDatasetWriter writer(prefix, TokenType::uint16);
  for (const Int32s& document : std::vector<Int32s>{{0, 1, 2}, {10, 11}, {}, {20, 21, 22, 23, 24}}) {
    writer.add_sequence(document);
    writer.end_document();
  }
  writer.finish();
  return std::make_shared<IndexedDataset>(prefix);
}

GptDataset open(const std::shared_ptr<const IndexedDataset>& corpus, GptIndexRequest request, int64_t vocabulary = 100) {
  request.documents = {0, corpus->sequences()};
  request.seed = 1;
  request.shuffle_documents = ShuffleDocuments::no;
  return {corpus, build_gpt_index(corpus->document_lengths(), request, IndexForm::compact), request, vocabulary, "four"};
}

// All samples, in the order of the documents.
std::vector<Sample> in_order(const GptDataset& dataset) {
  std::vector<Sample> samples(static_cast<size_t>(dataset.size()));
  for (int64_t i = 0; i < dataset.size(); ++i)
    samples[static_cast<size_t>(dataset.index().shuffle_index[i])] = sample_of(dataset, i);
  return samples;
}

TEST(GptDataset, NeighboursShareOneToken) {
  const TemporaryFolder folder;
  const GptDataset dataset = open(four_documents(folder), {.sequence = 4});
  EXPECT_EQ(in_order(dataset), (std::vector<Sample>{{{0, 1, 2, 10}, {1, 2, 10, 11}}, {{11, 20, 21, 22}, {20, 21, 22, 23}}}));
}

TEST(GptDataset, WithoutAnExtraTokenTheLastHasNoTarget) {
  const TemporaryFolder folder;
  const GptDataset dataset = open(four_documents(folder), {.sequence = 5, .extra_token = ExtraToken::no});
  EXPECT_EQ(in_order(dataset),
            (std::vector<Sample>{{{0, 1, 2, 10, 11}, {1, 2, 10, 11, -1}}, {{20, 21, 22, 23, 24}, {21, 22, 23, 24, -1}}}));
}

TEST(GptDataset, ALastSampleThatIsNotFullIsPadded) {
  const TemporaryFolder folder;
  const auto corpus = four_documents(folder);
  EXPECT_EQ(in_order(open(corpus, {.sequence = 4, .last_sample = LastSample::keep})),
            (std::vector<Sample>{
                {{0, 1, 2, 10}, {1, 2, 10, 11}}, {{11, 20, 21, 22}, {20, 21, 22, 23}}, {{23, 24, 0, 0}, {24, -1, -1, -1}}}));
  EXPECT_EQ(in_order(open(corpus, {.sequence = 8, .extra_token = ExtraToken::no, .last_sample = LastSample::keep})).back(),
            (Sample{{23, 24, 0, 0, 0, 0, 0, 0}, {24, -1, -1, -1, -1, -1, -1, -1}}));
}

TEST(GptDataset, SequencesOfOneToken) {
  const TemporaryFolder folder;
  const GptDataset dataset = open(four_documents(folder), {.sequence = 1});
  EXPECT_EQ(dataset.size(), 9);
  EXPECT_EQ(in_order(dataset)[4], (Sample{{11}, {20}}));
}

TEST(GptDataset, TokensOfAnotherVocabularyAreNoticed) {
  const TemporaryFolder folder;
  const GptDataset dataset = open(four_documents(folder), {.sequence = 4}, 23);
  expect_user_error([&] { in_order(dataset); }, {"four: sample", "token 23", "model.vocab_size is 23"});
}

}  // namespace
}  // namespace trireme

#include "data/mock/mock_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "data/expect_user_error.h"
#include "data/open/open_dataset.h"
#include "support/allocation_counter.h"

namespace trireme {
namespace {

using Int32s = std::vector<int32_t>;

DataSettings settings_of(DataImpl data_impl, const char* splits_string = "1") {
  return {.data_impl = data_impl, .data_prefix = {}, .splits_string = splits_string};
}

struct Sample {
  Int32s tokens, targets;
};

Sample sample_of(const Dataset& dataset, int64_t index) {
  const auto T = static_cast<size_t>(dataset.sequence());
  Sample sample{Int32s(T), Int32s(T)};
  dataset.sample(index, sample.tokens, sample.targets);
  return sample;
}

// A sample of T + 1 = 2049 tokens, known by its ends, its sum, and where its documents end; made with numpy and an independent
// program of the index.
struct Golden {
  int64_t index;
  int32_t first, last;
  int64_t sum;
  Int32s ends;
};

void expect_golden(const Dataset& dataset, const Golden& golden) {
  const Sample sample = sample_of(dataset, golden.index);
  EXPECT_EQ(sample.tokens.front(), golden.first);
  EXPECT_EQ(sample.targets.back(), golden.last);
  EXPECT_EQ(std::accumulate(sample.tokens.begin(), sample.tokens.end(), int64_t{0}) + sample.targets.back(), golden.sum);
  EXPECT_TRUE(std::equal(sample.tokens.begin() + 1, sample.tokens.end(), sample.targets.begin()));
  Int32s ends;
  for (size_t i = 0; i < sample.tokens.size(); ++i)
    if (sample.tokens[i] == 50256) ends.push_back(static_cast<int32_t>(i));
  EXPECT_EQ(ends, golden.ends);
}

TEST(MockData, SamplesOfTheProxyRun) {
  const auto train = open_dataset(settings_of(DataImpl::mock, "ignored"), 0, Split::train, 2048, 640, 1234);
  EXPECT_EQ(train->size(), 33296);
  EXPECT_EQ(train->vocabulary(), 50257);
  expect_golden(*train, {0, 2811, 1854, 1934326, {36, 194}});
  expect_golden(*train, {1, 94, 2142, 2290782, {}});
  expect_golden(*train, {639, 1315, 3363, 4792611, {}});

  const auto validation = open_dataset({}, 0, Split::validation, 2048, 640, 1234);
  EXPECT_EQ(validation->size(), 33281);
  expect_golden(*validation, {0, 536, 2584, 3196440, {}});
  expect_golden(*validation, {1, 955, 176, 1784214, {102, 1872}});
  expect_golden(*validation, {639, 3702, 1710, 2821390, {338}});
}

TEST(MockData, DocumentsCountUpAndEnd) {
  const MockCorpus corpus(50257);
  const auto length = static_cast<size_t>(corpus.document_lengths()[7]);
  ASSERT_EQ(length, 68u);
  Int32s tokens(length), expected(length);
  corpus.read(7, 0, tokens);
  std::iota(expected.begin(), expected.end(), 1);
  expected.back() = 50256;
  EXPECT_EQ(tokens, expected);
  Int32s part(3);
  corpus.read(7, 65, part);
  EXPECT_EQ(part, (Int32s{66, 67, 50256}));
  EXPECT_THROW(corpus.read(7, 66, part), std::logic_error);
}

TEST(MockData, ASmallVocabularyCountsInCircles) {
  const MockCorpus corpus(6);
  Int32s tokens(68);
  corpus.read(7, 0, tokens);
  EXPECT_EQ(Int32s(tokens.begin(), tokens.begin() + 6), (Int32s{1, 2, 3, 4, 1, 2}));
  EXPECT_EQ(tokens.back(), 5);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 5), 1);
  const auto dataset = open_dataset({}, 3, Split::test, 2048, 10, 1);
  EXPECT_EQ(dataset->vocabulary(), 3);
  for (const int32_t token : sample_of(*dataset, 9).targets) EXPECT_TRUE(token == 1 || token == 2);
}

TEST(LegacyMock, TokensAndTargetsAreIndependentDrawsOfNumpy) {
  const auto dataset = open_dataset(settings_of(DataImpl::mock_legacy), 0, Split::train, 2048, 3, 1234);
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->vocabulary(), 50257);
  const Sample sample = sample_of(*dataset, 0);
  EXPECT_EQ(Int32s(sample.tokens.begin(), sample.tokens.begin() + 8),
            (Int32s{49219, 49086, 49650, 19107, 8612, 46399, 5271, 13151}));
  EXPECT_EQ(Int32s(sample.targets.begin(), sample.targets.begin() + 8),
            (Int32s{46255, 38072, 46785, 15725, 21830, 31712, 41663, 5912}));
}

TEST(LegacyMock, AnOddLengthAndALaterSample) {
  const LegacyMockDataset dataset(8, 5, 50257, 1234);
  const Sample sample = sample_of(dataset, 7);
  EXPECT_EQ(sample.tokens, (Int32s{38191, 36880, 25228, 36199, 45781}));
  EXPECT_EQ(sample.targets, (Int32s{1552, 17985, 17823, 13148, 30474}));
}

TEST(MockData, ReadingASampleAllocatesNothing) {
  for (const DataImpl kind : {DataImpl::mock, DataImpl::mock_legacy}) {
    const auto dataset = open_dataset(settings_of(kind), 0, Split::train, 2048, 100, 1234);
    Int32s tokens(2048), targets(2048);
    const int64_t before = allocation_count;
    for (int64_t i = 0; i < 100; ++i) dataset->sample(i, tokens, targets);
    EXPECT_EQ(allocation_count, before) << name_of(kind);
  }
}

TEST(MockData, MistakesAreNamed) {
  const auto open = [](DataImpl kind, int64_t vocabulary, int64_t sequence, uint64_t seed) {
    return [=] { open_dataset(settings_of(kind), vocabulary, Split::train, sequence, 10, seed); };
  };
  expect_user_error(open(DataImpl::mock, 2, 8, 1), {"model.vocab_size=2", "3 to"});
  expect_user_error(open(DataImpl::mock, int64_t{1} << 31, 8, 1), {"model.vocab_size=2147483648"});
  expect_user_error(open(DataImpl::mock_legacy, std::numeric_limits<int64_t>::min(), 8, 1), {"model.vocab_size=-"});
  expect_user_error(open(DataImpl::mock, 0, 0, 1), {"model.encoder_seq_length=0"});
  expect_user_error(open(DataImpl::mock, 0, std::numeric_limits<int64_t>::max(), 1),
                    {"model.encoder_seq_length=9223372036854775807"});
  expect_user_error(open(DataImpl::mock, 0, 8, uint64_t{1} << 32), {"model.seed=4294967296"});
  expect_user_error(open(DataImpl::mock_legacy, 0, 8, std::numeric_limits<uint64_t>::max()), {"model.seed=18446744073709551615"});
}

TEST(MockData, ASampleThatDoesNotExistIsABug) {
  Int32s tokens(2048), targets(2048), shorter(2047);
  for (const DataImpl kind : {DataImpl::mock, DataImpl::mock_legacy}) {
    const auto dataset = open_dataset(settings_of(kind), 0, Split::train, 2048, 10, 1);
    EXPECT_THROW(dataset->sample(-1, tokens, targets), std::logic_error);
    EXPECT_THROW(dataset->sample(dataset->size(), tokens, targets), std::logic_error);
    EXPECT_THROW(dataset->sample(0, shorter, targets), std::logic_error);
  }
}

}  // namespace
}  // namespace trireme

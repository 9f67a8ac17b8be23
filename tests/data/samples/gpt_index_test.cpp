#include "data/samples/gpt_index.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "data/expect_user_error.h"
#include "data/numpy/numpy_random.h"
#include "data/sha256.h"
#include "support/golden_data.h"

namespace trireme {
namespace {

using Int64s = std::vector<int64_t>;
using Positions = std::vector<TokenPosition>;

Int64s head(const NumberArray& values, int64_t count) {
  Int64s first;
  for (int64_t i = 0; i < count; ++i) first.push_back(values[i]);
  return first;
}

Positions positions(const GptIndex& index, int64_t count) {
  Positions first;
  for (int64_t i = 0; i < count; ++i) first.push_back({index.sample_index[2 * i], index.sample_index[2 * i + 1]});
  return first;
}

GptIndex build(const Int64s& lengths, Range documents, int64_t sequence, int64_t samples_needed, uint64_t seed) {
  return build_gpt_index(lengths, {.documents = documents, .sequence = sequence, .samples_needed = samples_needed, .seed = seed},
                         IndexForm::megatron);
}

const Int64s kTiny = {5, 9, 3, 12, 7, 1, 20, 4};  // 61 tokens: 7 samples of 8 + 1

Int64s mock_lengths() {
  NumpyGenerator random(0);
  Int64s lengths(100000);
  for (int64_t& length : lengths) length = random.integers(1, 4096);
  return lengths;
}

TEST(GptIndex, OneEpoch) {
  const GptIndex index = build(kTiny, {0, 8}, 8, 0, 1234);
  EXPECT_EQ(index.plan.epochs, 1);
  EXPECT_EQ(index.plan.tokens_per_epoch, 61);
  EXPECT_FALSE(index.plan.separate_last_epoch);
  EXPECT_EQ(head(index.document_index, 8), (Int64s{2, 1, 6, 0, 4, 5, 3, 7}));
  EXPECT_EQ(positions(index, 8), (Positions{{0, 0}, {1, 5}, {2, 4}, {2, 12}, {3, 0}, {4, 3}, {6, 3}, {6, 11}}));
  EXPECT_EQ(head(index.shuffle_index, 7), (Int64s{5, 0, 3, 4, 2, 6, 1}));
}

// 14 samples take most of the second epoch, 9 only little of it: then the second epoch is shuffled by itself.
TEST(GptIndex, TwoEpochsShuffledTogetherOrApart) {
  const GptIndex joint = build(kTiny, {0, 8}, 8, 14, 1234);
  EXPECT_EQ(joint.plan.epochs, 2);
  EXPECT_FALSE(joint.plan.separate_last_epoch);
  EXPECT_EQ(head(joint.document_index, 16), (Int64s{5, 3, 0, 4, 6, 2, 2, 7, 1, 1, 0, 4, 5, 6, 3, 7}));
  EXPECT_EQ(head(joint.shuffle_index, 15), (Int64s{9, 7, 4, 3, 11, 2, 13, 1, 12, 5, 0, 8, 14, 6, 10}));

  const GptIndex apart = build(kTiny, {0, 8}, 8, 9, 1234);
  EXPECT_EQ(apart.plan.epochs, 2);
  EXPECT_TRUE(apart.plan.separate_last_epoch);
  EXPECT_EQ(head(apart.document_index, 16), (Int64s{2, 1, 6, 0, 4, 5, 3, 7, 5, 0, 3, 4, 2, 6, 1, 7}));
  EXPECT_EQ(head(apart.shuffle_index, 15), (Int64s{1, 6, 3, 0, 5, 2, 4, 11, 14, 10, 13, 9, 8, 7, 12}));
}

TEST(GptIndex, DocumentsWithoutTokensArePassedOver) {
  const GptIndex index = build(Int64s{5, 0, 9, 3, 0, 12, 7}, {0, 7}, 8, 9, 1234);
  EXPECT_EQ(index.plan.epochs, 3);
  EXPECT_EQ(positions(index, 8), (Positions{{0, 0}, {0, 8}, {2, 1}, {4, 4}, {5, 5}, {6, 4}, {7, 3}, {11, 6}}));
  EXPECT_EQ(positions(index, index.samples() + 1).back(), (TokenPosition{20, 5}));
}

TEST(GptIndex, ProxyRunOnMockData) {
  const GptIndex index = build(mock_lengths(), {0, 33333}, 2048, 640, 1234);
  EXPECT_EQ(index.plan.tokens_per_epoch, 68190290);
  EXPECT_EQ(index.plan.epochs, 1);
  EXPECT_EQ(index.samples(), 33296);
  EXPECT_EQ(head(index.document_index, 8), (Int64s{30903, 11571, 3134, 32473, 27454, 4409, 3622, 19425}));
  EXPECT_EQ(positions(index, 4), (Positions{{0, 0}, {0, 2048}, {1, 1095}, {1, 3143}}));
  EXPECT_EQ(head(index.shuffle_index, 8), (Int64s{16693, 14248, 13801, 769, 6935, 20026, 19400, 25263}));
}

TEST(GptIndex, FourEpochsOnMockData) {
  const GptIndex index = build(mock_lengths(), {0, 33333}, 2048, 102400, 1234);
  EXPECT_EQ(index.plan.epochs, 4);
  EXPECT_TRUE(index.plan.separate_last_epoch);
  EXPECT_EQ(index.samples(), 133184);
  EXPECT_EQ(head(index.document_index, 8), (Int64s{13504, 5933, 8884, 30983, 23323, 13165, 22911, 6063}));
  EXPECT_EQ(positions(index, 4), (Positions{{0, 0}, {2, 548}, {2, 2596}, {3, 1967}}));
  EXPECT_EQ(head(index.shuffle_index, 8), (Int64s{68467, 40335, 41710, 32452, 36821, 61492, 68161, 6753}));
}

TEST(GptIndex, ASplitHoldsItsOwnDocumentsOnly) {
  const GptIndex index = build(Int64s{5, 9, 3, 12, 7, 1, 20, 4, 6, 6, 6, 2}, {3, 10}, 8, 12, 99);
  EXPECT_EQ(head(index.document_index, 14), (Int64s{3, 8, 3, 9, 9, 8, 7, 5, 6, 7, 4, 5, 6, 4}));
  EXPECT_EQ(index.document_index.size(), 14);
}

TEST(GptIndex, EnoughSamplesForAnyWishAndEachOnce) {
  for (const int64_t sequence : {1, 8, 60, 61, 500})
    for (const int64_t wish : {1, 6, 7, 8, 15, 16, 23}) {
      const GptIndex index = build(kTiny, {0, 8}, sequence, wish, 5);
      EXPECT_GE(index.samples(), wish);
      EXPECT_EQ(index.sample_index.size(), 2 * (index.samples() + 1));
      const Int64s order = head(index.shuffle_index, index.samples());
      EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), order.size());
      // One epoch fewer would not do.
      EXPECT_TRUE(index.plan.epochs == 1 || (index.plan.epochs - 1) * 61 < wish * sequence + 1);
    }
}

std::string digest(const NumberArray& values) {
  return sha256(std::span(values.data(), static_cast<size_t>(values.size() * size_of(values.type()))));
}

// A compact index says what the arrays of Megatron say.
void expect_same(const GptIndex& compact, const GptIndex& full, const Int64s& lengths, const GptIndexRequest& request) {
  EXPECT_EQ(compact.samples(), full.samples());
  EXPECT_EQ(digest(compact.shuffle_index), digest(full.shuffle_index));
  EXPECT_EQ(head(compact.document_index, full.document_index.size()), head(full.document_index, full.document_index.size()));
  for (int64_t i = 0; i <= full.samples(); ++i)
    ASSERT_EQ(compact.position(i, lengths, request), full.position(i, lengths, request)) << i;
}

TEST(GptIndex, TheCompactFormSaysTheSame) {
  const Int64s many = mock_lengths();
  for (const Int64s& lengths : {kTiny, Int64s(many.begin(), many.begin() + 300), many}) {
    for (const ExtraToken extra : {ExtraToken::yes, ExtraToken::no}) {
      const GptIndexRequest request{.documents = {0, std::ssize(lengths)},
                                    .sequence = lengths.size() < 10 ? 3 : 1024,
                                    .samples_needed = 70,
                                    .seed = 3,
                                    .extra_token = extra};
      const GptIndex compact = build_gpt_index(lengths, request, IndexForm::compact);
      EXPECT_LT(compact.sample_index.size(), compact.samples() / 20 + 4);
      expect_same(compact, build_gpt_index(lengths, request, IndexForm::megatron), lengths, request);
    }
  }
}

TEST(GptIndex, HostileSizesAreRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  expect_user_error([] { build(kTiny, {0, 8}, 8, kMost, 1); }, {"trainer.max_steps", "does not fit in 64 bits"});
  expect_user_error([] { build(kTiny, {0, 8}, 8, kMost / 16, 1); }, {"trainer.max_steps", "68719476736"});
  expect_user_error([] { build(Int64s{kMost, 1}, {0, 2}, 8, 1, 1); }, {"tokens of the corpus"});
  expect_user_error([] { build(kTiny, {0, 8}, 8, 1, uint64_t{1} << 32); }, {"model.seed=4294967296"});
  EXPECT_THROW(build(kTiny, {0, 9}, 8, 1, 1), std::logic_error);
  EXPECT_THROW(build(kTiny, {0, 0}, 8, 1, 1), std::logic_error);
  EXPECT_THROW(build(kTiny, {0, 8}, 0, 1, 1), std::logic_error);
}

// ------------------------------------------------------------------------------ arrays made with Megatron's own code, in full

Int64s golden_lengths(const nlohmann::json& lengths) {
  if (lengths.is_array()) return lengths.get<Int64s>();
  const int64_t low = lengths["lo"], high = lengths["hi"];
  uint64_t state = lengths["seed"];
  Int64s drawn(lengths["n"].get<size_t>());
  for (int64_t& length : drawn) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    length = low + static_cast<int64_t>(state >> 33) % (high - low + 1);
  }
  return drawn;
}

TEST(GptIndex, EqualsMegatronsArrays) {
  std::ifstream file(golden_data() / "megatron_index/golden.jsonl");
  int checked = 0;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json golden = nlohmann::json::parse(line);
    SCOPED_TRACE(golden["name"].get<std::string>());
    const Int64s lengths = golden_lengths(golden["doc_lengths"]);
    const GptIndexRequest request{.documents = {golden["docs"][0], golden["docs"][1]},
                                  .sequence = golden["seq_length"],
                                  .samples_needed = golden["num_samples"].is_null() ? 0 : golden["num_samples"].get<int64_t>(),
                                  .seed = golden["seed"],
                                  .extra_token = golden["extra_token"] == 1 ? ExtraToken::yes : ExtraToken::no,
                                  .last_sample = golden["drop_last"] == true ? LastSample::drop : LastSample::keep};
    const GptIndex index = build_gpt_index(lengths, request, IndexForm::megatron);
    EXPECT_EQ(index.plan.epochs, golden["num_epochs"].get<int64_t>());
    EXPECT_EQ(index.plan.separate_last_epoch, golden["separate_final_epoch"].get<bool>());
    EXPECT_EQ(index.samples(), golden["num_samples_built"].get<int64_t>());
    EXPECT_EQ(digest(index.document_index), golden["document_index_sha256_i32"].get<std::string>());
    EXPECT_EQ(digest(index.sample_index), golden["sample_index_sha256_i32"].get<std::string>());
    EXPECT_EQ(digest(index.shuffle_index), golden["shuffle_index_sha256_u32"].get<std::string>());
    expect_same(build_gpt_index(lengths, request, IndexForm::compact), index, lengths, request);
    ++checked;
  }
  EXPECT_EQ(checked, 17);
}

}  // namespace
}  // namespace trireme

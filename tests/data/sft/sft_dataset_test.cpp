// Prompts and responses packed into samples.
#include "data/sft/sft_dataset.h"

#include <gtest/gtest.h>

#include <set>

#include "data/batch/batch.h"
#include "data/tokenizer/load_tokenizer.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using Tokens = std::vector<int32_t>;
constexpr int32_t kEnd = 256;

SftExample example(Tokens tokens, int64_t response) {
  return {.tokens = std::move(tokens), .response = response, .place = "here"};
}

SftDataset packed(std::vector<SftExample> examples, int64_t sequence, int64_t samples = 0) {
  return {std::move(examples),
          {.sequence = sequence, .samples_needed = samples, .seed = 5, .end_token = kEnd, .vocabulary = 257}};
}

struct Sample {
  Tokens tokens, targets;
};
Sample read(const SftDataset& data, int64_t index) {
  Sample sample{Tokens(static_cast<size_t>(data.sequence())), Tokens(static_cast<size_t>(data.sequence()))};
  data.sample(index, sample.tokens, sample.targets);
  return sample;
}

TEST(SftDataset, OnlyResponsesHaveTargets) {
  const SftDataset data = packed({example({1, 2, 3, 4}, 2)}, 8);
  ASSERT_EQ(data.size(), 1);
  const Sample sample = read(data, 0);
  EXPECT_EQ(sample.tokens, (Tokens{1, 2, 3, 4, kEnd, kEnd, kEnd, kEnd}));
  EXPECT_EQ(sample.targets, (Tokens{-1, 3, 4, kEnd, -1, -1, -1, -1}));
}

TEST(SftDataset, AnEmptyPromptHasTargetsFromTheSecondToken) {
  EXPECT_EQ(read(packed({example({7, 8}, 0)}, 4), 0).targets, (Tokens{8, kEnd, -1, -1}));
}

// Two of four examples of three tokens, end token included, fit into seven.
TEST(SftDataset, ExamplesShareASampleIfTheyFit) {
  const SftDataset data = packed({example({1, 2}, 1), example({3, 4}, 1), example({5, 6}, 1), example({7, 8}, 1)}, 7, 20);
  EXPECT_EQ(data.epoch_size(), 2);
  ASSERT_EQ(data.size(), 20);
  std::set<Tokens> orders;
  for (int64_t i = 0; i < data.size(); i += 2) {
    std::multiset<int32_t> seen;
    for (const int64_t index : {i, i + 1})
      for (const int32_t token : read(data, index).tokens)
        if (token != kEnd) seen.insert(token);
    EXPECT_EQ(seen, (std::multiset<int32_t>{1, 2, 3, 4, 5, 6, 7, 8})) << "each once per pass";
    orders.insert(read(data, i).tokens);
  }
  EXPECT_GT(orders.size(), 1u) << "every pass has an order of its own";
}

TEST(SftDataset, ExamplesDoNotSeeEachOther) {
  const SftDataset data = packed({example({1, 2}, 1), example({3, 4}, 1)}, 8);
  Batch batch(1, 8, {}, {.end_token = kEnd, .resets_positions = true, .resets_attention = true});
  fill_batch(data, 0, batch);
  EXPECT_EQ(batch.document_starts, (Tokens{0, 0, 0, 3, 3, 3, 6, 7}));
  EXPECT_EQ(batch.positions, (Tokens{0, 1, 2, 0, 1, 2, 0, 0}));
  EXPECT_EQ(batch.unmasked_targets, 4);
}

// Context-parallel ranks read parts.
TEST(SftDataset, PartsAreThoseOfTheWhole) {
  const SftDataset data = packed({example({1, 2, 3, 4, 5}, 3), example({6, 7}, 1)}, 12);
  const Sample whole = read(data, 0);
  for (int64_t first = 0; first < 12; first += 3) {
    Tokens tokens(3), targets(3);
    data.sample_part(0, first, tokens, targets);
    EXPECT_EQ(tokens, Tokens(whole.tokens.begin() + first, whole.tokens.begin() + first + 3));
    EXPECT_EQ(targets, Tokens(whole.targets.begin() + first, whole.targets.begin() + first + 3));
  }
}

TEST(SftExamples, FollowTheTemplate) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.jsonl", "{\"system\": \"be {kind}\", \"input\": \"hi\", \"output\": \"ho\"}\n");
  const auto tokenizer = load_tokenizer("bytes");
  const auto examples = read_sft_examples(
      {file}, {.prompt_template = "<{system}>\n{ not a field} User: {input}\n{output}", .label_key = "output"}, *tokenizer);
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_EQ(tokenizer->decode(examples[0].tokens), "<be {kind}>\n{ not a field} User: hi\nho");
  EXPECT_EQ(examples[0].response, std::ssize(examples[0].tokens) - 2);
}

}  // namespace
}  // namespace trireme

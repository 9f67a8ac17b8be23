// What the token that ends a document does to positions, attention and loss, as Megatron's get_ltor_masks_and_position_ids has
// it.
#include <gtest/gtest.h>

#include "data/batch/batch.h"
#include "data/expect_user_error.h"
#include "data/open/open_dataset.h"

namespace trireme {
namespace {

constexpr int32_t kEnd = 9;
using Int32s = std::vector<int32_t>;

// Samples of twelve tokens; the first ends documents at 2, 3 and 8, the second nowhere, the third at both of its ends.
class Documents final : public Dataset {
 public:
  int64_t size() const override { return 3; }
  int64_t sequence() const override { return 12; }
  int64_t vocabulary() const override { return 10; }

 private:
  void read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    static const Int32s kSamples[] = {{1, 2, 9, 9, 5, 6, 7, 8, 9, 1, 2, 3, 4},
                                      {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5},
                                      {9, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 9, 1}};
    const Int32s& sample = kSamples[index];
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = sample[static_cast<size_t>(first) + i];
      targets[i] = sample[static_cast<size_t>(first) + i + 1];
    }
  }
};

Batch filled(const DocumentRules& rules, SequenceCut cut = {}) {
  Batch batch(3, 12, cut, rules);
  fill_batch(Documents(), 0, batch);
  return batch;
}

constexpr DocumentRules kAll{.end_token = kEnd, .resets_positions = true, .resets_attention = true, .masks_loss = true};

TEST(DocumentRules, PositionsAndStartsBeginAfterTheEndToken) {
  const Batch batch = filled(kAll);
  EXPECT_EQ(batch.document_starts, (Int32s{0, 0, 0, 3, 4, 4, 4, 4, 4, 9, 9, 9,  //
                                           0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                           0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(batch.positions, (Int32s{0, 1, 2, 0, 0, 1, 2, 3, 4, 0, 1,  2,   //
                                     0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,  //
                                     0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,  10}));
  EXPECT_EQ(batch.unmasked_targets, 36 - 5);
  for (size_t i = 0; i < batch.tokens.size(); ++i) EXPECT_EQ(batch.targets[i] == kMaskedTarget, batch.tokens[i] == kEnd) << i;
}

TEST(DocumentRules, EachActsAlone) {
  const Batch plain = filled({});
  EXPECT_TRUE(plain.document_starts.empty());
  EXPECT_EQ(plain.unmasked_targets, 36);
  const Batch positions = filled({.end_token = kEnd, .resets_positions = true});
  EXPECT_EQ(positions.positions, filled(kAll).positions);
  EXPECT_EQ(positions.targets, plain.targets);
  const Batch attention = filled({.end_token = kEnd, .resets_attention = true});
  EXPECT_EQ(attention.document_starts, filled(kAll).document_starts);
  EXPECT_EQ(attention.positions, plain.positions);
  const Batch loss = filled({.end_token = kEnd, .masks_loss = true});
  EXPECT_EQ(loss.targets, filled(kAll).targets);
  EXPECT_EQ(loss.positions, plain.positions);
}

// A rank that has the end of a sequence finds the starts of documents that began on other ranks.
TEST(DocumentRules, RanksThatShareSequencesAgree) {
  const Batch whole = filled(kAll);
  for (const int64_t ranks : {2, 3})
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const SequenceCut cut{.rank = rank, .ranks = ranks};
      const Batch part = filled(kAll, cut);
      const int64_t length = cut.part_length(12);
      for (int64_t held = 0, row = 0; held < 2; ++held)
        for (int64_t sample = 0; sample < 3; ++sample)
          for (int64_t i = 0; i < length; ++i, ++row) {
            const auto at = static_cast<size_t>(sample * 12 + cut.part_number(held) * length + i),
                       here = static_cast<size_t>(row);
            EXPECT_EQ(part.document_starts[here], whole.document_starts[at]);
            EXPECT_EQ(part.positions[here], whole.positions[at]);
            EXPECT_EQ(part.targets[here], whole.targets[at]);
          }
    }
}

TEST(DocumentRules, TheEndTokenIsThatOfTheTokenizer) {
  const DataSettings off, mock{.data_impl = DataImpl::mock, .reset_position_ids = true},
      text{.data_impl = DataImpl::text, .eod_mask_loss = true}, mmap{.data_impl = DataImpl::mmap, .reset_attention_mask = true};
  EXPECT_FALSE(document_rules(off, {}, 100).needs_starts());
  EXPECT_EQ(document_rules(mock, {}, 100).end_token, 99);
  EXPECT_EQ(document_rules(text, {}, 257).end_token, 256);
  expect_user_error([&] { document_rules(mmap, {}, 100); }, {"model.data.reset_attention_mask=true", "model.tokenizer"});
  const TokenizerSettings sentencepiece{.library = TokenizerLibrary::sentencepiece,
                                        .model = TRIREME_SOURCE_DIR "/tests/data/tokenizer/sentencepiece/bpe_bytes.model"};
  EXPECT_EQ(document_rules(mmap, sentencepiece, 460).end_token, 2);
}

}  // namespace
}  // namespace trireme

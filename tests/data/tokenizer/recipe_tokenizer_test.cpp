#include "data/tokenizer/recipe_tokenizer.h"

#include <gtest/gtest.h>

#include "data/expect_user_error.h"
#include "data/open/open_dataset.h"
#include "data/tokenizer/bpe_trainer.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using Kind = RecipeTokenizer::Kind;

// A folder with a vocabulary learnt from a few words: vocab.json, merges.txt and, in hf/, tokenizer.json.
class RecipeTokenizerTest : public testing::Test {
 protected:
  RecipeTokenizerTest() {
    const TrainedVocabulary vocabulary =
        train_bpe({{"low", 9}, {" lower", 7}, {" newest", 6}}, {.vocabulary = 270, .special_tokens = {"<|endoftext|>"}});
    tokens_ = static_cast<int64_t>(vocabulary.tokens.size()) + 1;
    vocab_ = folder_.write("vocab.json", write_vocab_json(vocabulary));
    merges_ = folder_.write("elsewhere/merges.txt", write_merges_txt(vocabulary, WordPattern::gpt2));
    folder_.write("hf/tokenizer.json", write_tokenizer_json(vocabulary, WordPattern::gpt2));
    text_ = folder_.write("text.txt", "low lower newest low lower newest low lower newest");
  }

  DatasetsBySplit open(DataImpl data_impl, const TokenizerSettings& tokenizer, int64_t vocabulary) const {
    DatasetRequest request{.vocabulary = vocabulary, .tokenizer = tokenizer, .sequence = 2, .seed = 1, .samples_needed = {}};
    request.samples_needed[0] = 1;
    return open_datasets({.data_impl = data_impl, .data_prefix = {text_}, .splits_string = "1"}, request, [](const auto&) {});
  }

  TokenizerSettings pair() const { return {.vocab_file = vocab_, .merge_file = merges_}; }
  TokenizerSettings hugging_face() const { return {.library = TokenizerLibrary::huggingface, .type = (folder_ / "hf").string()}; }

  TemporaryFolder folder_;
  std::string vocab_, merges_, text_;
  int64_t tokens_ = 0;
};

TEST_F(RecipeTokenizerTest, IsTheOneThatTheRecipeNames) {
  EXPECT_EQ(named_tokenizer({}).kind, Kind::bytes);
  EXPECT_EQ(named_tokenizer({.library = TokenizerLibrary::megatron, .type = "GPT2BPETokenizer"}).kind, Kind::bytes);
  EXPECT_EQ(named_tokenizer({}).open()->vocabulary(), 257);
  const std::string text = "low newest";
  const auto expected = named_tokenizer(pair()).open()->encode(text);
  EXPECT_LT(expected.size(), text.size());
  EXPECT_EQ(named_tokenizer(hugging_face()).open()->encode(text), expected);
  EXPECT_EQ(named_tokenizer({.model = (folder_ / "hf/tokenizer.json").string()}).open()->encode(text), expected);
}

TEST_F(RecipeTokenizerTest, WhatIsNotHereIsKnownAndSaid) {
  const RecipeTokenizer sentencepiece = named_tokenizer({.library = TokenizerLibrary::sentencepiece, .model = "spm.model"});
  EXPECT_EQ(sentencepiece.kind, Kind::foreign);
  expect_user_error([&] { sentencepiece.open(); }, {"model.tokenizer.model=spm.model", "no such file", "tokenizer.model"});
  const RecipeTokenizer hub = named_tokenizer({.library = TokenizerLibrary::huggingface, .type = "someone/some-model"});
  EXPECT_EQ(hub.kind, Kind::foreign);
  expect_user_error([&] { hub.open(); }, {"model.tokenizer.type=someone/some-model", "tokenizer.json"});
  expect_user_error([&] { named_tokenizer({.merge_file = merges_}); }, {"model.tokenizer.merge_file=", "vocab_file is missing"});
  expect_user_error([&] { named_tokenizer({.vocab_file = "/no/vocab.json"}).open(); },
                    {"model.tokenizer.vocab_file=/no/vocab.json"});
  expect_user_error([&] { named_tokenizer({.vocab_file = vocab_}).open(); }, {vocab_, "merges.txt"});
}

TEST_F(RecipeTokenizerTest, TextIsReadWithIt) {
  const auto tokenizer = named_tokenizer(pair()).open();
  for (const TokenizerSettings& settings : {pair(), hugging_face()}) {
    const auto datasets = open(DataImpl::text, settings, 0);
    EXPECT_EQ(datasets[0]->vocabulary(), tokens_);
    std::vector<int32_t> tokens(2), targets(2);
    datasets[0]->sample(0, tokens, targets);
    EXPECT_EQ(tokens[1], targets[0]);
    EXPECT_TRUE(std::string("low lower newest low lower newest low lower newest").find(tokenizer->decode(tokens)) !=
                std::string::npos);
    EXPECT_GT(std::max(tokens[0], tokens[1]), 255) << "a merged token";
  }
}

TEST_F(RecipeTokenizerTest, TheModelMustKnowAllItsTokens) {
  expect_user_error([&] { open(DataImpl::text, pair(), tokens_ - 1); },
                    {"model.vocab_size=", "model.tokenizer.vocab_file=" + vocab_, "at least " + std::to_string(tokens_)});
  EXPECT_EQ(open(DataImpl::text, pair(), tokens_ + 50)[0]->vocabulary(), tokens_ + 50);  // rounded up
  // Files of tokens need no tokenizer, but one that is named must suit.
  expect_user_error([&] { open(DataImpl::mmap, pair(), tokens_ - 1); }, {"model.vocab_size="});
  expect_user_error([&] { open(DataImpl::mmap, {.library = TokenizerLibrary::huggingface, .type = "someone/some-model"}, 0); },
                    {"model.vocab_size must be given", "someone/some-model"});
  expect_user_error([&] { open(DataImpl::mmap, {.library = TokenizerLibrary::huggingface, .type = "someone/some-model"}, 9); },
                    {text_});  // no .idx
}

}  // namespace
}  // namespace trireme

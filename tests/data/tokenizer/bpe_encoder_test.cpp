#include "data/tokenizer/bpe_encoder.h"

#include <gtest/gtest.h>

#include <thread>

#include "data/tokenizer/tokenizer_fixtures.h"

namespace trireme {
namespace {

struct Made {
  std::vector<std::string> tokens;
  std::vector<Merge> merges;
};

Made learn() {
  std::mt19937 random(7);
  ThreadPool pool(1);
  WordCounter counter(WordPattern::gpt2, pool);
  counter.add({random_text(random, 20000)});
  TrainedVocabulary trained = train_bpe(counter.take(), {.vocabulary = 900});
  return {std::move(trained.tokens), std::move(trained.merges)};
}

std::vector<int32_t> encode(BpeEncoder& encoder, std::string_view text) {
  TokenBuffer tokens;
  encoder.encode(text, tokens);
  return {tokens.tokens().begin(), tokens.tokens().end()};
}

// Every instruction set, new and knowing encoders, against pattern and merging done the plain way.
TEST(BpeEncoder, AgreesWithThePlainWayOnRandomText) {
  const Made made = learn();
  const BpeModel model("made", made.tokens, made.merges, WholeWords::merged);
  const PlainMerger plain(made.tokens, made.merges);
  for (const WordKernels* kernels : available_word_kernels()) {
    SCOPED_TRACE(kernels->name);
    BpeEncoder encoder(model, WordPattern::gpt2, *kernels);
    std::mt19937 random(11);
    for (int i = 0; i < 400; ++i) {
      const std::string text = random_text(random, 1 + random() % 60);
      const std::vector<std::string> words = plain_gpt2_words(text);
      ASSERT_EQ(encode(encoder, text), plain.encode(words)) << testing::PrintToString(words);
    }
  }
}

// Blocks of 64 bytes and pieces of 4096 must not show: the same text at every offset from their boundaries.
TEST(BpeEncoder, BoundariesOfBlocksDoNotShow) {
  const Made made = learn();
  const BpeModel model("made", made.tokens, made.merges, WholeWords::merged);
  const PlainMerger plain(made.tokens, made.merges);
  const std::string corner =
      "x's 'll'd  \xE3\x80\x80\xE3\x80\x80y\xC2\xA0 12 \xE4\xB8\xAD\xE6\x96\x87've!\n\n  z\xF0\x9F\x98\x80";
  for (const WordKernels* kernels : available_word_kernels()) {
    SCOPED_TRACE(kernels->name);
    BpeEncoder encoder(model, WordPattern::gpt2, *kernels);
    for (const size_t block : {64, 4096, 4160})
      for (size_t before = block - corner.size() - 4; before < block + 4; ++before) {
        const std::string text = std::string(before - 1, 'q') + " " + corner;
        ASSERT_EQ(encode(encoder, text), plain.encode(plain_gpt2_words(text))) << before;
      }
  }
}

// The text ends where it ends: nothing after it is looked at.
TEST(BpeEncoder, DoesNotReadBeyondTheText) {
  const Made made = learn();
  const BpeModel model("made", made.tokens, made.merges, WholeWords::merged);
  for (const WordKernels* kernels : available_word_kernels()) {
    BpeEncoder encoder(model, WordPattern::gpt2, *kernels);
    const std::string text = "it's \xE4\xB8\xAD\xE6\x96\x87 and 12345 words'll \xF0\x9F\x98\x80";
    for (size_t size = 0; size <= text.size(); ++size) {
      // Memory of exactly that size, for the sanitizers to watch; what follows in the string must not matter.
      const std::vector<char> exact(text.begin(), text.begin() + static_cast<ptrdiff_t>(size));
      EXPECT_EQ(encode(encoder, {exact.data(), size}), encode(encoder, std::string_view(text).substr(0, size)))
          << kernels->name << size;
    }
  }
}

TEST(BpeEncoder, MoreWordsThanTheCacheHoldsGiveTheSameTokens) {
  const Made made = learn();
  const BpeModel model("made", made.tokens, made.merges, WholeWords::merged);
  BpeEncoder remembering(model, WordPattern::gpt2);
  std::mt19937 random(5);
  for (int round = 0; round < 12; ++round) {
    std::string text;
    for (int i = 0; i < 40000; ++i) {
      text += ' ';
      for (size_t length = 1 + random() % 24; length > 0; --length) text += static_cast<char>('a' + random() % 26);
    }
    BpeEncoder fresh(model, WordPattern::gpt2);
    ASSERT_EQ(encode(remembering, text), encode(fresh, text));
  }
}

TEST(BpeTokenizer, WhatIsEncodedDecodesToItself) {
  const BpeTokenizer tokenizer(small_definition(), SpecialTokens::ordinary);
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_text(random, 50);
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(BpeTokenizer, SpecialTokensAreAnOption) {
  const BpeTokenizer ordinary(small_definition(), SpecialTokens::ordinary),
      special(small_definition(), SpecialTokens::recognised);
  const std::string text = "a<|endoftext|>b";
  const int32_t end = special.end_of_document();
  EXPECT_EQ(std::ranges::count(ordinary.encode(text), end), 0);
  const std::vector<int32_t> tokens = special.encode(text);
  ASSERT_EQ(tokens.size(), 3U);
  EXPECT_EQ(tokens[1], end);
  EXPECT_EQ(special.decode(tokens), "ab") << "the end of a document stands for no text";
  EXPECT_EQ(special.vocabulary(), end + 1);
}

TEST(BpeTokenizer, NumbersThatAreNoTokensBecomeTheReplacementCharacter) {
  const BpeTokenizer tokenizer(small_definition(), SpecialTokens::ordinary);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{-1, 1 << 30}), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(BpeTokenizer, ThreadsWithTheirOwnEncodersAgree) {
  const BpeTokenizer tokenizer(small_definition(), SpecialTokens::ordinary);
  std::mt19937 random(9);
  const std::string text = random_text(random, 3000);
  const std::vector<int32_t> expected = tokenizer.encode(text);
  std::vector<std::vector<int32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& tokens : found)
    threads.emplace_back([&] {
      const auto encoder = tokenizer.make_encoder();
      TokenBuffer buffer;
      encoder->encode(text, buffer);
      tokens.assign(buffer.tokens().begin(), buffer.tokens().end());
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& tokens : found) EXPECT_EQ(tokens, expected);
}

}  // namespace
}  // namespace trireme

#include "data/tokenizer/byte_tokenizer.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ByteTokenizer, EveryByteIsItsValueAndComesBack) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  const ByteTokenizer tokenizer;
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  ASSERT_EQ(tokens.size(), 256u);
  for (int32_t byte = 0; byte < 256; ++byte) EXPECT_EQ(tokens[static_cast<size_t>(byte)], byte);
  EXPECT_EQ(tokenizer.decode(tokens), text);
}

TEST(ByteTokenizer, EndOfDocumentIsTheLastTokenAndStandsForNoText) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.end_of_document(), tokenizer.vocabulary() - 1);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{'a', 256, 'b'}), "ab");
}

TEST(ByteTokenizer, WhatIsNoTokenBecomesTheReplacementCharacter) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{257, 'a', -1}),
            "\xEF\xBF\xBD"
            "a\xEF\xBF\xBD");
}

}  // namespace
}  // namespace trireme

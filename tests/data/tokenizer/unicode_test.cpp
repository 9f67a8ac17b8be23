#include "data/tokenizer/unicode.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Unicode, WhiteSpaceIsThePropertyAndNothingElse) {
  int spaces = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) spaces += CharClassTable::get().of(c) == kSpace ? 1 : 0;
  EXPECT_EQ(spaces, 25);
  for (const uint32_t c : {0x1CU, 0x180EU, 0x200BU, 0x2060U, 0xFEFFU}) EXPECT_EQ(CharClassTable::get().of(c), kOther) << c;
  EXPECT_EQ(CharClassTable::get().of(0x85), kSpace);
}

// The sizes of \p{L} and \p{N} in Unicode 16.0, which tiktoken and Hugging Face tokenizers have.
TEST(Unicode, LettersAndNumbersAreThoseOfVersion16) {
  int letters = 0, numbers = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    letters += (CharClassTable::get().of(c) & kLetter) != 0 ? 1 : 0;
    numbers += CharClassTable::get().of(c) == kNumber ? 1 : 0;
  }
  EXPECT_EQ(letters, 141028);
  EXPECT_EQ(numbers, 1911);
}

TEST(Unicode, ComposedForms) {
  const std::pair<std::string, std::string> cases[] = {
      {"e\u0301", "\u00E9"},               // a letter and its accent
      {"\u212B", "\u00C5"},                // a sign that is another letter
      {"\u1100\u1161\u11A8", "\uAC01"},    // Hangul, by arithmetic
      {"a\u0323\u0307", "\u1EA1\u0307"},   // the first mark fits
      {"a\u0307\u0323", "\u1EA1\u0307"},   // ... also when it stands second
      {"\u0958", "\u0915\u093C"},          // never composed
      {"q\u0307\u0323", "q\u0323\u0307"},  // marks in order, nothing composed
      {"\u0344", "\u0308\u0301"},
  };
  for (const auto& [text, expected] : cases) {
    std::string composed;
    EXPECT_TRUE(compose_nfc(text, composed)) << expected;
    EXPECT_EQ(composed, expected);
  }
  std::string composed;
  // Came after Unicode 9.0, which the normalizer of Hugging Face tokenizers has: neither sorted nor composed.
  for (const char* text : {"a\u0345\u1ACE", "a\u0345\u08D3", "\U00011935\U00011930", "\U00011938"})
    EXPECT_TRUE(!compose_nfc(text, composed) || composed == text) << text;
  EXPECT_FALSE(compose_nfc("plain, \u00E9, \uAC01, \xFF", composed));
  EXPECT_TRUE(compose_nfc("e\u0301\xFF", composed));
  EXPECT_EQ(composed, "\u00E9\xFF") << "what is not UTF-8 passes through";
}

}  // namespace
}  // namespace trireme

#include "data/tokenizer/word_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme {
namespace {

std::vector<std::string> words_of(WordPattern pattern, const std::string& text) {
  const auto* begin = reinterpret_cast<const uint8_t*>(text.data());
  SplitState state{.at = begin, .end = begin + text.size()};
  std::vector<uint32_t> starts(64 * 64 + 16);
  const SplitResult result = splitter_of(pattern, choose_word_kernels())(state, CharClassTable::get(), begin, 64, starts.data());
  EXPECT_TRUE(result.done);
  starts[result.words] = static_cast<uint32_t>(text.size());
  std::vector<std::string> words;
  for (size_t i = 0; i < result.words; ++i) words.push_back(text.substr(starts[i], starts[i + 1] - starts[i]));
  return words;
}

struct Case {
  WordPattern pattern;
  std::string text;
  std::vector<std::string> words;  // as Python's regex module cuts it; cl100k_long_numbers: Oniguruma
};

TEST(WordPattern, CutsAsTheExpressionsDo) {
  const std::vector<Case> cases = {
      {WordPattern::cl100k,
       "It'S we'Ll 12345 'tis\ta\n\n  b  \n ",
       {"It", "'S", " we", "'Ll", " ", "123", "45", " '", "tis", "\ta", "\n\n", " ", " b", "  \n "}},
      {WordPattern::cl100k, "\u00A0x !!\r\n\r\n(y) '\u017F", {"\u00A0x", " !!\r\n\r\n", "(y", ")", " '", "\u017F"}},
      {WordPattern::cl100k, " \n\t\n  z", {" \n\t\n", " ", " z"}},
      {WordPattern::cl100k, "e\u0301\u0301f \u4E2D\u6587ab", {"e", "\u0301\u0301", "f", " \u4E2D\u6587ab"}},
      {WordPattern::cl100k_long_numbers, "a1234567 12\u2167\u2167\u2167", {"a", "1234567", " ", "12\u2167\u2167\u2167"}},
      {WordPattern::llama3, "It's 1234567\n  \n x  ", {"It", "'s", " ", "123", "456", "7", "\n  \n", " x", "  "}},
      {WordPattern::llama3, " !\n\ny", {" !\n\n", "y"}},
      {WordPattern::qwen2, "a12 345", {"a", "1", "2", " ", "3", "4", "5"}},
      {WordPattern::o200k,
       "HelloWorld's XMLHttp\u4E2DA\u6587b ABC'Ll",
       {"Hello", "World's", " XMLHttp\u4E2D", "A\u6587b", " ABC'Ll"}},
      {WordPattern::o200k, "a/b//\n/c !/\n", {"a", "/b", "//\n/", "c", " !/\n"}},
      {WordPattern::o200k, "\u0301x \u0301 \u4E2D\u0301A", {"\u0301x", " \u0301", " \u4E2D\u0301", "A"}},
      {WordPattern::o200k, "AB\u4E2D \u02B0A1234", {"AB\u4E2D", " \u02B0", "A", "123", "4"}},
  };
  for (const Case& row : cases) EXPECT_EQ(words_of(row.pattern, row.text), row.words) << name_of(row.pattern) << ": " << row.text;
}

TEST(WordPattern, IsKnownByNameAndByExpression) {
  for (const char* name : {"gpt2", "cl100k", "cl100k_long_numbers", "llama3", "qwen2", "o200k"}) {
    const auto pattern = pattern_named(name);
    ASSERT_TRUE(pattern) << name;
    EXPECT_EQ(name_of(*pattern), name);
    EXPECT_EQ(pattern_of_regex(regex_of(*pattern)), pattern);
  }
  EXPECT_FALSE(pattern_named("gpt3"));
  EXPECT_FALSE(pattern_of_regex("\\w+"));
}

}  // namespace
}  // namespace trireme

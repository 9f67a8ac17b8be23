// Documents of JSON lines, read from a stream.
#include "data/prepare/json_documents.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/utf8.h"

namespace trireme::prepare {
namespace {

class TextSource final : public ByteSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  size_t read(std::span<char> to) override {
    const size_t count = std::min(to.size(), text_.size() - at_);
    std::copy_n(text_.begin() + static_cast<std::ptrdiff_t>(at_), count, to.begin());
    at_ += count;
    return count;
  }

 private:
  std::string text_;
  size_t at_ = 0;
};

// "line: text", or "line! problem".
std::vector<std::string> read_all(const std::string& text) {
  TextSource source(text);
  JsonDocuments documents(source, "text");
  std::vector<std::string> found;
  while (const auto document = documents.next())
    found.push_back(std::to_string(document->line) +
                    (document->problem.empty() ? ": " + std::string(document->text) : "! " + document->problem));
  return found;
}

TEST(JsonDocuments, PassesOverBlankLinesAndAByteOrderMark) {
  EXPECT_EQ(read_all("\xEF\xBB\xBF{\"text\": \"a\"}\r\n\n \t\r\n\"bare\"\n{\"text\": [\"b\", \"c\"], \"n\": NaN}"),
            (std::vector<std::string>{"1: a", "4: bare", "5: b\n\nc"}));
  EXPECT_TRUE(read_all("").empty());
  EXPECT_EQ(read_all("{\"text\": \"\"}\n"), std::vector<std::string>{"1: "});
}

TEST(JsonDocuments, SaysWhatIsWrongWithALine) {
  EXPECT_EQ(read_all("{\"text\": nul}\n{\"a\": 1}\n{\"text\": 1}\n\"good\"\n\n\xEF\xBB\xBF{}\n"),
            (std::vector<std::string>{"1! not JSON: a value was expected, at byte 9", "2! no key \"text\"; --key names another",
                                      "3! the value of \"text\" is no text", "4: good",
                                      "6! not JSON: a value was expected, at byte 0"}));
}

TEST(JsonDocuments, CountsWhatItReplaces) {
  TextSource source("{\"text\": \"\\ud83d \\ude00\"}\n{\"text\": \"a\xFF\xE4\xB8z\"}\n");
  JsonDocuments documents(source, "text");
  const auto surrogates = documents.next();
  EXPECT_EQ(surrogates->text, "\uFFFD \uFFFD");
  EXPECT_EQ(surrogates->lone_surrogates, 2);
  const auto bytes = documents.next();
  EXPECT_EQ(bytes->text, "a\uFFFD\uFFFDz");
  EXPECT_EQ(bytes->invalid_utf8, 2);
}

// Lines that end at, before and after the end of what is read at a time.
TEST(JsonDocuments, ReadsLinesOfAnyLength) {
  std::string text;
  std::vector<std::string> expected;
  for (const size_t length : {0, 1, 65521, 65522, 65523, 65536, 300000, 5}) {
    const std::string word(length, static_cast<char>('a' + expected.size()));
    text += "{\"text\": \"" + word + "\"}\n";
    expected.push_back(std::to_string(expected.size() + 1) + ": " + word);
  }
  EXPECT_EQ(read_all(text), expected);
  text.pop_back();
  EXPECT_EQ(read_all(text), expected) << "without the last line feed";
}

}  // namespace
}  // namespace trireme::prepare

// Text that is encoded piece by piece has the tokens of the whole, wherever it is cut.
#include "data/tokenizer/text_cut.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "data/tokenizer/load_tokenizer.h"
#include "tokenizer_fixtures.h"

namespace trireme {
namespace {

constexpr WordPattern kAllPatterns[] = {WordPattern::gpt2,   WordPattern::cl100k, WordPattern::cl100k_long_numbers,
                                        WordPattern::llama3, WordPattern::qwen2,  WordPattern::o200k};

// Where words begin, and the end of the text.
std::vector<size_t> word_starts(WordPattern pattern, std::string_view text) {
  std::vector<size_t> all;
  const auto* begin = reinterpret_cast<const uint8_t*>(text.data());
  SplitState state{.at = begin, .end = begin + text.size()};
  std::vector<uint32_t> starts(4 * 64 + 16);
  for (bool done = text.empty(); !done;) {
    const SplitResult result = splitter_of(pattern, choose_word_kernels())(state, CharClassTable::get(), begin, 4, starts.data());
    all.insert(all.end(), starts.begin(), starts.begin() + static_cast<ptrdiff_t>(result.words));
    done = result.done;
  }
  all.push_back(text.size());
  return all;
}

// Every place that is called safe, of a text that continues.
std::vector<size_t> safe_places(const TextCutter& cutter, std::string_view text) {
  std::vector<size_t> places;
  for (size_t size = 1; size <= text.size(); ++size) {
    const size_t at = cutter.last(text.substr(0, size));
    if (at != 0 && (places.empty() || places.back() != at)) places.push_back(at);
  }
  return places;
}

void expect_words_kept(WordPattern pattern, std::string_view text) {
  const AddedTokenFinder none;
  const std::vector<size_t> whole = word_starts(pattern, text);
  for (const size_t at : safe_places(TextCutter(pattern, TextForm::as_it_is, none, none), text)) {
    std::vector<size_t> parts = word_starts(pattern, text.substr(0, at));
    parts.pop_back();
    for (const size_t start : word_starts(pattern, text.substr(at))) parts.push_back(at + start);
    ASSERT_EQ(parts, whole) << name_of(pattern) << ", cut at " << at << " of: " << text;
  }
}

// All texts of four characters that differ in what patterns tell apart.
TEST(TextCut, KeepsTheWordsOfEveryShortText) {
  const std::vector<std::string> parts = {"a", "B", "中", "1", " ", "\n", "\r", "'", "!", "/", "\u0301", "s"};
  const size_t kinds = parts.size();
  const std::string after = "'s 1!\n中a";  // the text continues
  for (size_t number = 0; number < kinds * kinds * kinds * kinds; ++number) {
    std::string text;
    for (size_t rest = number, i = 0; i < 4; ++i, rest /= kinds) text += parts[rest % kinds];
    for (const WordPattern pattern : kAllPatterns) expect_words_kept(pattern, text + after.substr(number % 4));
    if (HasFatalFailure()) return;
  }
}

TEST(TextCut, KeepsTheWordsOfRandomText) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(random, 60);
    for (const WordPattern pattern : kAllPatterns) expect_words_kept(pattern, text);
    if (HasFatalFailure()) return;
  }
}

struct Sample {
  const char* name;
  std::string text;
  size_t most_between;  // bytes from one place to cut to the next
};

std::string repeated(std::string_view line, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += fmt::format(fmt::runtime(line), i * 7919 % 1000);
  return text;
}

// What could not be cut when only a line feed between ASCII letters was a place.
std::vector<Sample> samples() {
  std::string bytes;
  std::mt19937 random(5);
  for (int i = 0; i < 6000; ++i) bytes += static_cast<char>(random());
  return {{"crlf", repeated("Line {} of the text,\r\n\r\n  it's what they'll do.\r\n", 80), 30},
          {"russian", repeated("Всё смешалось в доме номер {}.\nЖена узнала,\n что муж\n", 80), 60},
          {"chinese", repeated("第{}章学而时习之，不亦说乎？有朋自远方来，\n不亦乐乎？\n", 80), 60},
          {"csv", repeated("{},\"x y\",3.25,-1,,\"a, b\"\r\n", 120), 30},
          {"log", repeated("[2024-05-06 07:08:09.{:03}] WARN  /a/b.cc:12 -> 0x7f {{}}\n", 80), 30},
          {"bullets", repeated("* one\n  - two {}\n\t• three\n\n", 120), 30},
          {"marks", repeated("!?\n\n....\n--\n{}***\n", 120), 30},
          {"emoji", repeated("😀👨‍👩‍👧😀\r\n😀😀\r\n{}", 120), 50},
          {"arabic", repeated("مرحبا بالعالم، {} نص طويل؟\n", 80), 40},
          {"random bytes", bytes, 120}};
}

// A definition whose text form, prefix and added tokens all depend on what is before and after a cut.
BpeDefinition demanding(WordPattern pattern) {
  BpeDefinition definition = small_definition(pattern);
  definition.text_form = TextForm::nfc;
  definition.adds_prefix_space = true;
  int32_t id = definition.end_of_document;
  for (const char* text : {"le of", "\n\n", "，\n不", "-1,,", "x\r\n"})
    definition.added.push_back({text, ++id, AddedToken::Kind::text, id % 2 == 0});
  return definition;
}

void expect_same_tokens(const Tokenizer& tokenizer, const Sample& sample, size_t block) {
  const auto encoder = tokenizer.make_encoder();
  TokenBuffer whole, pieces;
  std::string repaired;
  replace_invalid_utf8(sample.text, repaired);
  encoder->encode(repaired, whole);
  std::string_view rest = sample.text;
  size_t window = block, longest = 0, searched = 0;
  for (bool begins = true; !rest.empty();) {
    size_t length = rest.size();
    if (window < rest.size()) {
      length = tokenizer.last_cut(rest.substr(0, window), searched);
      if (length == 0) {
        searched = window;
        window += block;
        continue;
      }
    }
    replace_invalid_utf8(rest.substr(0, length), repaired);
    if (begins)
      encoder->encode(repaired, pieces);
    else
      encoder->encode_rest(repaired, pieces);
    begins = false;
    rest.remove_prefix(length);
    longest = std::max(longest, window);
    window = block;
    searched = 0;
  }
  ASSERT_TRUE(std::ranges::equal(whole.tokens(), pieces.tokens())) << sample.name << " in blocks of " << block;
  EXPECT_LE(longest, sample.most_between + 2 * block) << sample.name << " in blocks of " << block;
}

TEST(TextCut, PiecesHaveTheTokensOfTheWhole) {
  const std::vector<Sample> texts = samples();
  for (const WordPattern pattern : kAllPatterns) {
    const BpeTokenizer plain(small_definition(pattern), SpecialTokens::ordinary);
    const BpeTokenizer special(demanding(pattern), SpecialTokens::recognised);
    for (const Sample& sample : texts)
      for (const size_t block : {1, 7, 64, 500}) {
        SCOPED_TRACE(name_of(pattern));
        expect_same_tokens(plain, sample, block);
        expect_same_tokens(special, sample, block);
        if (HasFatalFailure()) return;
      }
  }
  for (const Sample& sample : texts) expect_same_tokens(ByteTokenizer(), sample, 7);
}

// ------------------------------------------------------------------------------------------------------ sentencepiece models

std::unique_ptr<Tokenizer> sentencepiece(const std::string& model, SpecialTokens specials = SpecialTokens::ordinary) {
  return load_tokenizer(TRIREME_SOURCE_DIR "/tests/data/tokenizer/sentencepiece/" + model + ".model", {.specials = specials});
}

// Text of what rules, user-defined pieces, control symbols and the clearing up of spaces depend on.
std::string text_for_pieces(std::mt19937& random, const std::vector<std::string>& parts, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += parts[random() % parts.size()];
  return text;
}

// Every place where a cut is allowed, not only the last one of a block.
void expect_safe_cuts(const Tokenizer& tokenizer, const std::string& text, int& cuts) {
  const auto encoder = tokenizer.make_encoder();
  TokenBuffer whole;
  encoder->encode(text, whole);
  size_t last = 0;
  for (size_t size = 1; size <= text.size(); ++size) {
    const size_t at = tokenizer.last_cut(std::string_view(text).substr(0, size), 0);
    if (at == 0 || at == last) continue;
    last = at, ++cuts;
    TokenBuffer pieces;
    encoder->encode(std::string_view(text).substr(0, at), pieces);
    encoder->encode_rest(std::string_view(text).substr(at), pieces);
    ASSERT_TRUE(std::ranges::equal(whole.tokens(), pieces.tokens())) << "cut at " << at << " of: " << text;
  }
}

TEST(TextCut, PiecesOfSentencepieceModelsHaveTheTokensOfTheWhole) {
  const std::vector<std::string> parts = {" ",      "  ",  "\n",  "\t",   "\u2581", "a",     "the",    "fox", "ing", "e",
                                          "\u0301", "ﬁ",   "①",   "汉",   "字",     "😀",     ".",      ",",   "::",  "12",
                                          "'",      "<s>", "</s", "</s>", "<mask>", "<ctl>", "\u3000", "q"};
  std::mt19937 random(3);
  for (const char* model : {"bpe_bytes", "bpe_rules"})
    for (const SpecialTokens specials : {SpecialTokens::ordinary, SpecialTokens::recognised}) {
      SCOPED_TRACE(model);
      const auto tokenizer = sentencepiece(model, specials);
      int cuts = 0;
      for (int round = 0; round < 400; ++round) {
        expect_safe_cuts(*tokenizer, text_for_pieces(random, parts, 40), cuts);
        if (HasFatalFailure()) return;
      }
      EXPECT_GT(cuts, 400 * 5);
      for (const Sample& sample : samples()) {
        const bool is_utf8 = valid_utf8_prefix(sample.text) == sample.text.size();
        const size_t most_between = is_utf8 ? 150 : 1500;  // around bytes that are not UTF-8 there is no cut
        for (const size_t block : {1, 64, 500}) expect_same_tokens(*tokenizer, {sample.name, sample.text, most_between}, block);
      }
    }
}

// Where the tokens of a text depend on all that is before them.
TEST(TextCut, SentencepieceModelsWithoutBordersAreNotCut) {
  const std::string text = repeated("The quick brown fox {} jumps.\n", 20);
  EXPECT_NE(sentencepiece("bpe_bytes")->last_cut(text, 0), 0U);
  for (const char* model : {"bpe_unused", "unigram_bytes", "unigram_rules"})
    EXPECT_EQ(sentencepiece(model)->last_cut(text, 0), 0U) << model;
}

// A composed character that NFC takes apart ends with a mark, which belongs to what follows it.
TEST(TextCut, LeavesWhatNormalizationChanges) {
  const AddedTokenFinder none;
  const std::string text = "\uFB1D! an";  // the last four bytes belong to what may follow
  EXPECT_EQ(TextCutter(WordPattern::cl100k, TextForm::as_it_is, none, none).last(text), 3);
  EXPECT_EQ(TextCutter(WordPattern::cl100k, TextForm::nfc, none, none).last(text), 0);
  BpeDefinition definition = small_definition(WordPattern::cl100k);
  definition.text_form = TextForm::nfc;
  const BpeTokenizer tokenizer(std::move(definition), SpecialTokens::ordinary);
  std::string mixed;
  for (int i = 0; i < 50; ++i) mixed += "\uFB1D!e\u0301 \uFB1D\n\u1100\u1161! \u2126 ";
  for (const size_t block : {1, 5, 40}) expect_same_tokens(tokenizer, {"composed", mixed, 60}, block);
}

}  // namespace
}  // namespace trireme

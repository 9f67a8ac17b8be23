#include "data/tokenizer/load_tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/expect_user_error.h"
#include "data/tokenizer/tokenizer_fixtures.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

TrainedVocabulary trained() {
  std::mt19937 random(7);
  ThreadPool pool(1);
  WordCounter counter(WordPattern::gpt2, pool);
  counter.add({random_text(random, 5000)});
  return train_bpe(counter.take(), {.vocabulary = 600});
}

std::string to_base64(std::string_view bytes) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) text += at + i > bytes.size() ? '=' : kAlphabet[bits >> (18 - 6 * i) & 63];
  }
  return text;
}

std::string rank_file(const TrainedVocabulary& vocabulary) {
  std::string text;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id)
    text += to_base64(vocabulary.tokens[id]) + " " + std::to_string(id) + "\n";
  return text;
}

TEST(LoadTokenizer, TheSameVocabularyFromEveryKindOfFile) {
  const TrainedVocabulary vocabulary = trained();
  const TemporaryFolder folder;
  const std::string vocab = folder.write("vocab.json", write_vocab_json(vocabulary));
  folder.write("merges.txt", write_merges_txt(vocabulary, WordPattern::gpt2));
  const std::string json = folder.write("tokenizer.json", write_tokenizer_json(vocabulary, WordPattern::gpt2));
  const std::string ranks = folder.write("made.tiktoken", rank_file(vocabulary));
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  for (const std::string& name : {vocab, json, folder.path().string()}) tokenizers.push_back(load_tokenizer(name));
  for (const auto& tokenizer : tokenizers) {
    EXPECT_EQ(tokenizer->vocabulary(), 600);
    EXPECT_EQ(tokenizer->end_of_document(), 599);
  }
  tokenizers.push_back(load_tokenizer(ranks, {.pattern = WordPattern::gpt2}));
  std::mt19937 random(4);
  for (int i = 0; i < 100; ++i) {
    const std::string text = random_text(random, 40);
    const std::vector<int32_t> tokens = tokenizers[0]->encode(text);
    for (const auto& tokenizer : tokenizers) ASSERT_EQ(tokenizer->encode(text), tokens);
  }
}

// The pattern belongs to the vocabulary: what was learnt with one is cut with it, from whichever of its files it is read.
TEST(LoadTokenizer, ThePatternIsKeptWithTheVocabulary) {
  const TrainedVocabulary vocabulary = trained();
  const std::string text = "HelloWorld's 12345 camelCase!!\n\n x";
  for (const char* name : {"gpt2", "cl100k", "llama3", "qwen2", "o200k"}) {
    const WordPattern pattern = *pattern_named(name);
    const TemporaryFolder folder;
    const std::string vocab = folder.write("vocab.json", write_vocab_json(vocabulary));
    folder.write("merges.txt", write_merges_txt(vocabulary, pattern));
    const std::string json = folder.write("tokenizer.json", write_tokenizer_json(vocabulary, pattern));
    const auto loaded = load_tokenizer(vocab);
    EXPECT_EQ(dynamic_cast<const BpeTokenizer&>(*loaded).definition().pattern, pattern);
    EXPECT_EQ(loaded->encode(text), load_tokenizer(json)->encode(text)) << name;
    EXPECT_EQ(load_tokenizer(json, {.pattern = pattern})->encode(text), loaded->encode(text)) << name;
    const WordPattern other = pattern == WordPattern::o200k ? WordPattern::gpt2 : WordPattern::o200k;
    expect_user_error([&] { load_tokenizer(json, {.pattern = other}); },
                      {std::string("--pattern ").append(name_of(other)), "tokenizer.json says", name});
    if (pattern != WordPattern::gpt2)
      expect_user_error([&] { load_tokenizer(vocab, {.pattern = other}); }, {"vocab.json says", name});
    // Files of others say nothing, so that the user may.
    folder.write("merges.txt", write_merges_txt(vocabulary, WordPattern::gpt2));
    const auto named = load_tokenizer(vocab, {.pattern = pattern});
    EXPECT_EQ(dynamic_cast<const BpeTokenizer&>(*named).definition().pattern, pattern);
  }
  expect_user_error([&] { read_vocab_and_merges("v.json", write_vocab_json(vocabulary), "#version: 0.2 pattern: gpt9\n"); },
                    {"v.json", "gpt9"});
}

TEST(LoadTokenizer, SaysWhatIsWrongInOneLine) {
  const TrainedVocabulary vocabulary = trained();
  const TemporaryFolder folder;
  const auto json = nlohmann::json::parse(write_tokenizer_json(vocabulary, WordPattern::gpt2));
  const auto expect_refused = [&](const char* pointer, const nlohmann::json& value, const std::vector<std::string>& words) {
    auto changed = json;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    expect_user_error([&] { read_tokenizer_json("t.json", changed.dump()); }, words);
  };
  expect_refused("/model/type", "Unigram", {"t.json", "Unigram"});
  expect_refused("/model/byte_fallback", true, {"byte_fallback"});
  expect_refused("/normalizer", {{"type", "Lowercase"}}, {"Lowercase", "NFC"});
  expect_refused("/pre_tokenizer", {{"type", "Metaspace"}}, {"Metaspace"});
  expect_refused("/pre_tokenizer", {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "x+"}}}}, {"x+"});
  expect_refused("/pre_tokenizer", nullptr, {"byte-level"});
  expect_refused("/model/merges", nlohmann::json::parse(R"([["a", "zzzzzz"]])"), {"merge 1", "zzzzzz"});
  expect_refused("/model/vocab", {{"a", 1}}, {"merge 1"});
  expect_refused("/added_tokens/0/lstrip", true, {"lstrip"});
  expect_refused("/added_tokens/0/content", "a", {"added token a", "in the vocabulary"});
  expect_refused("/truncation", {{"max_length", 512}}, {"truncation is set", "null"});
  expect_refused("/padding", {{"strategy", "BatchLongest"}}, {"padding is set", "null"});
  const nlohmann::json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  nlohmann::json spaced = byte_level;
  spaced["add_prefix_space"] = true;
  const nlohmann::json split{
      {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", regex_of(WordPattern::llama3)}}}};
  const auto sequence = [](const nlohmann::json& steps) {
    return nlohmann::json{{"type", "Sequence"}, {"pretokenizers", steps}};
  };
  expect_refused("/pre_tokenizer", sequence({split, spaced}), {"add_prefix_space after a Split"});
  expect_refused("/pre_tokenizer", sequence({split, byte_level, byte_level}), {"two ByteLevel"});
  expect_refused("/pre_tokenizer", sequence({split, byte_level, {{"type", "Digits"}}}), {"Digits after ByteLevel"});
  for (const char* type : {"WordPiece", "Unigram"}) {
    const std::string path =
        folder.write("other.json", fmt::format(R"({{"version": "1.0", "model" : {{"type": "{}", "vocab": {{}}}}}})", type));
    expect_user_error([&] { load_tokenizer(path); }, {"other.json", std::string("model type ") + type, "byte-level BPE"});
  }
  expect_refused("/added_tokens/0/id", -1, {"added token"});
  expect_user_error([] { read_tokenizer_json("t.json", "{\"model\": "); }, {"t.json", "byte"});
  expect_user_error([] { read_rank_file("r.tiktoken", "IQ== 0\n!! 1\n", WordPattern::gpt2); }, {"r.tiktoken:2"});
  expect_user_error([] { read_rank_file("r.tiktoken", "IQ== 0\nIQ== 1\n", WordPattern::gpt2); }, {"r.tiktoken:2", "twice"});
  expect_user_error([] { read_rank_file("r.tiktoken", "IQ== 0\n", WordPattern::gpt2); }, {"byte 0x00"});
  expect_user_error([] { read_rank_file("r.tiktoken", "IQ== 99999999\n", WordPattern::gpt2); }, {"99999999"});
  expect_user_error([&] { read_rank_file("r.tiktoken", rank_file(vocabulary), {}); }, {"--pattern", "cl100k"});
  expect_user_error([] { read_vocab_and_merges("v.json", "[1]", ""); }, {"v.json", "object"});
  expect_user_error([&] { read_vocab_and_merges("v.json", write_vocab_json(vocabulary), "#version: 0.2\nabc\n"); },
                    {"merge line 2"});
  expect_user_error([&] { load_tokenizer(folder / "nothing.json"); }, {"nothing.json", "no such file"});
  expect_user_error([&] { load_tokenizer(folder.path().string()); }, {"no tokenizer.json"});
  const std::string alone = folder.write("vocab.json", write_vocab_json(vocabulary));
  expect_user_error([&] { load_tokenizer(alone); }, {"merges.txt"});
}

// A token that its own bytes do not merge into: only tiktoken's way of looking whole words up finds it.
TEST(LoadTokenizer, WholeWordsAreTokensWhereTheFileSaysSo) {
  auto json = nlohmann::json::parse(write_tokenizer_json(trained(), WordPattern::gpt2));
  json["model"]["vocab"]["zqzqz"] = 600;
  const auto encode = [&] {
    return BpeTokenizer(read_tokenizer_json("t.json", json.dump()), SpecialTokens::ordinary).encode("zqzqz");
  };
  EXPECT_GT(encode().size(), 1U);
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(encode(), std::vector<int32_t>{600});
}

TEST(LoadTokenizer, AddedTokensThatAreNotSpecialAreAlwaysFoundTheLongestFirst) {
  auto json = nlohmann::json::parse(write_tokenizer_json(trained(), WordPattern::gpt2));
  for (int spaces = 2; spaces < 5; ++spaces)
    json["added_tokens"].push_back(
        {{"id", 600 + spaces}, {"content", std::string(static_cast<size_t>(spaces), ' ')}, {"special", false}});
  const BpeTokenizer tokenizer(read_tokenizer_json("t.json", json.dump()), SpecialTokens::ordinary);
  const std::vector<int32_t> tokens = tokenizer.encode("a      b");  // six: four and two
  ASSERT_EQ(tokens.size(), 4U);
  EXPECT_EQ(tokens[1], 604);
  EXPECT_EQ(tokens[2], 602);
  EXPECT_EQ(tokenizer.decode(tokens), "a      b");
}

// Tokens with "normalized" are found in the composed text, after the others.
TEST(LoadTokenizer, AddedTokensAreFoundBeforeOrAfterNormalization) {
  auto json = nlohmann::json::parse(write_tokenizer_json(trained(), WordPattern::gpt2));
  json["normalizer"] = {{"type", "NFC"}};
  const auto add = [&](int id, const char* content, bool normalized) {
    json["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", false}, {"normalized", normalized}});
  };
  add(700, "ze", true);
  add(701, "qe\u0301", true);
  add(702, "xe", false);
  const BpeTokenizer tokenizer(read_tokenizer_json("t.json", json.dump()), SpecialTokens::ordinary);
  const auto has = [&](const char* text, int32_t token) { return std::ranges::count(tokenizer.encode(text), token) == 1; };
  EXPECT_TRUE(has("aze!", 700));
  EXPECT_FALSE(has("aze\u0301!", 700)) << "the e is part of an \u00E9";
  EXPECT_TRUE(has("aq\u00E9!", 701));
  EXPECT_TRUE(has("aqe\u0301!", 701));
  EXPECT_TRUE(has("axe\u0301!", 702));
}

// As GPT-2's reader and Hugging Face tokenizers have it: a dictionary in which the last entry stays.
TEST(LoadTokenizer, OfAMergeThatIsThereTwiceTheLastPlaceCounts) {
  const TrainedVocabulary vocabulary = trained();
  auto json = nlohmann::json::parse(write_tokenizer_json(vocabulary, WordPattern::gpt2));
  auto moved = json;
  auto& merges = moved["model"]["merges"];
  const auto first = merges[0];
  merges.erase(0);
  merges.push_back(first);
  json["model"]["merges"].push_back(first);  // twice: at its own place, and last of all
  const BpeTokenizer twice(read_tokenizer_json("t.json", json.dump()), SpecialTokens::ordinary);
  const BpeTokenizer last(read_tokenizer_json("t.json", moved.dump()), SpecialTokens::ordinary);
  std::mt19937 random(8);
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(random, 30);
    ASSERT_EQ(twice.encode(text), last.encode(text)) << text;
  }
}

TEST(LoadTokenizer, TextIsComposedWhereTheFileSaysSo) {
  auto json = nlohmann::json::parse(write_tokenizer_json(trained(), WordPattern::gpt2));
  json["normalizer"] = {{"type", "NFC"}};
  const BpeTokenizer tokenizer(read_tokenizer_json("t.json", json.dump()), SpecialTokens::ordinary);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("e\u0301 \u1100\u1161\u11A8")), "\u00E9 \uAC01");
}

}  // namespace
}  // namespace trireme

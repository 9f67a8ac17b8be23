// Sentencepiece models against tokens and text that the sentencepiece library made, and damaged ones.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "data/expect_user_error.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/recipe_tokenizer.h"
#include "data/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

const std::filesystem::path kFolder = std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/data/tokenizer/sentencepiece";

std::string path_of(const std::string& model) { return (kFolder / (model + ".model")).string(); }
std::string bytes_of_model(const std::string& model) { return read_file(path_of(model), 1 << 20); }

const json& golden() {
  static const json parsed = json::parse(std::ifstream(kFolder / "golden.json"));
  return parsed;
}

// The text of make_golden.py: long enough that a unigram model raises its scores, with many ways of equal score.
std::string long_text() {
  static const std::vector<std::string> kParts = {"#", "---|", "0", "the ", "qz"};
  std::string text;
  uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = (state * 1103515245 + 12345) % (uint64_t{1} << 31);
    for (uint64_t count = 1 + (state >> 12) % 9; count > 0; --count) text += kParts[(state >> 8) % 5];
    text += "abe "[(state >> 20) % 4];
  }
  return text;
}

class SentencePieceGolden : public testing::TestWithParam<const char*> {};

TEST_P(SentencePieceGolden, TokensAreThoseOfTheLibrary) {
  const auto tokenizer = load_tokenizer(path_of(GetParam()));
  const auto encoder = tokenizer->make_encoder();  // one that remembers what it met
  const json& expected = golden()[GetParam()];
  const auto texts = golden()["texts"].get<std::vector<std::string>>();
  ASSERT_GE(texts.size(), 60U);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto ids = expected["ids"][i].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->encode(texts[i]), ids) << texts[i];
    TokenBuffer tokens;
    encoder->encode(texts[i], tokens);
    EXPECT_TRUE(std::ranges::equal(tokens.tokens(), ids)) << texts[i];
    EXPECT_EQ(tokenizer->decode(ids), expected["decoded"][i].get<std::string>());
  }
  for (size_t i = 0; i < expected["draws"].size(); ++i)
    EXPECT_EQ(tokenizer->decode(expected["draws"][i].get<std::vector<int32_t>>()),
              expected["decoded_draws"][i].get<std::string>())
        << expected["draws"][i];
}

TEST_P(SentencePieceGolden, LongTexts) {
  const std::vector<int32_t> tokens = load_tokenizer(path_of(GetParam()))->encode(long_text());
  uint32_t checksum = 0;
  for (const int32_t token : tokens) checksum = checksum * 31 + static_cast<uint32_t>(token);
  EXPECT_EQ(tokens.size(), golden()[GetParam()]["long"]["count"].get<size_t>());
  EXPECT_EQ(checksum, golden()[GetParam()]["long"]["checksum"].get<uint32_t>());
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePieceGolden,
                         testing::Values("bpe_bytes", "bpe_rules", "bpe_unused", "unigram_bytes", "unigram_rules"));

TEST(SentencePiece, EndOfDocumentIsTheEndPiece) {
  EXPECT_EQ(load_tokenizer(path_of("bpe_bytes"))->end_of_document(), 2);
  EXPECT_EQ(load_tokenizer(path_of("bpe_rules"))->end_of_document(), 2) << "<eos>, as the model calls it";
  EXPECT_EQ(load_tokenizer(path_of("bpe_rules"), {.end_of_document = "<ctl>"})->end_of_document(), 3);
  expect_user_error([] { load_tokenizer(path_of("bpe_rules"), {.end_of_document = "<none>"}); }, {"bpe_rules.model", "<none>"});
}

TEST(SentencePiece, ControlSymbolsAreFoundOnlyWhenAsked) {
  const auto ordinary = load_tokenizer(path_of("bpe_bytes"));
  const auto recognised = load_tokenizer(path_of("bpe_bytes"), {.specials = SpecialTokens::recognised});
  const std::string text = "The fox</s>The dog";
  std::vector<int32_t> parts = ordinary->encode("The fox");
  parts.push_back(2);
  for (const int32_t token : ordinary->encode("The dog")) parts.push_back(token);
  EXPECT_EQ(recognised->encode(text), parts);
  EXPECT_EQ(std::ranges::count(ordinary->encode(text), 2), 0);
  EXPECT_EQ(ordinary->decode(ordinary->encode(text)), text);
}

// Generated text is shown token by token, so that a token must not lose the space before its word.
TEST(SentencePiece, TokensOneByOneAreTheText) {
  const auto tokenizer = load_tokenizer(path_of("bpe_bytes"));
  const std::string text = "The quick fox 汉字 😀 jumps";
  std::string shown;
  for (const int32_t token : tokenizer->encode(text)) shown += tokenizer->decode_within(token);
  EXPECT_EQ(shown, " " + text);
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{-1, 1000000}), "\uFFFD\uFFFD");
}

TEST(SentencePiece, IsFoundInFoldersAndRecipes) {
  const TemporaryFolder folder;
  folder.write("llama2/tokenizer.model", bytes_of_model("bpe_bytes"));
  folder.write("llama2/tokenizer.json", "{\"model\": {\"type\": \"BPE\", \"merges\": []}}");  // the same in a form not read here
  const std::string text = "The quick brown fox";
  const auto expected = load_tokenizer(path_of("bpe_bytes"))->encode(text);
  EXPECT_EQ(load_tokenizer((folder / "llama2").string())->encode(text), expected);
  const RecipeTokenizer named = named_tokenizer({.library = TokenizerLibrary::sentencepiece, .model = path_of("bpe_bytes")});
  EXPECT_EQ(named.kind, RecipeTokenizer::Kind::files);
  EXPECT_EQ(named.open()->encode(text), expected);
  EXPECT_EQ(named.open()->vocabulary(), 460);
  EXPECT_EQ(
      named_tokenizer({.library = TokenizerLibrary::huggingface, .type = (folder / "llama2").string()}).open()->encode(text),
      expected);
}

TEST(SentencePiece, IsKnownByItsFirstBytes) {
  for (const char* model : {"bpe_bytes", "bpe_rules", "unigram_rules"})
    EXPECT_TRUE(looks_like_sentencepiece(bytes_of_model(model)));
  for (const char* text :
       {"", "\n", "{\"a\": 0}", "\n\n{\"a\": 0}", "\n\n\n{\"a\": 0}", "\n\n\n\n{\"a\": 0}", "IQ== 0\nIg== 1\n"})
    EXPECT_FALSE(looks_like_sentencepiece(text)) << text;
  // Llama 3 has a rank file under this name.
  const TemporaryFolder folder;
  std::string ranks;
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ranks += std::string{kDigits[static_cast<size_t>(byte >> 2)], kDigits[static_cast<size_t>(byte & 3) << 4]} +
             "== " + std::to_string(byte) + "\n";
  }
  folder.write("tokenizer.model", ranks);
  EXPECT_EQ(load_tokenizer(folder.path().string(), {.pattern = WordPattern::llama3})->encode("AB"),
            (std::vector<int32_t>{65, 66}));
}

// Data prepared with the same pieces and other scores is other data.
TEST(SentencePiece, TheChecksumIsOverScoresToo) {
  EXPECT_NE(load_tokenizer(path_of("bpe_bytes"))->rules_checksum(), load_tokenizer(path_of("bpe_unused"))->rules_checksum());
  EXPECT_EQ(load_tokenizer("bytes")->rules_checksum(), 0U);
}

// Any prefix, and any change of a byte, ends in a model or in one line.
TEST(SentencePiece, DamagedModelsAreRefusedOrRead) {
  const std::string text = "The ﬁne fox<mask>汉字 ::\t①";
  int refused = 0;
  const auto attempt = [&](std::string_view bytes) {
    try {
      const SentencePieceTokenizer tokenizer(read_sentencepiece_model("m", bytes), SpecialTokens::recognised, {});
      for (const int32_t token : tokenizer.encode(text)) ASSERT_TRUE(token >= 0 && token < tokenizer.vocabulary());
      tokenizer.decode(tokenizer.encode(text));
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      ++refused;
    }
  };
  std::mt19937 random(5);
  for (const char* model : {"bpe_bytes", "bpe_rules", "unigram_rules"}) {
    const std::string whole = bytes_of_model(model);
    for (size_t size = 0; size < whole.size(); size += 1 + random() % 50) attempt(std::string_view(whole).substr(0, size));
    for (int i = 0; i < 300; ++i) {
      std::string damaged = whole;
      for (int changes = 0; changes < 3; ++changes) damaged[random() % damaged.size()] = static_cast<char>(random());
      attempt(damaged);
    }
  }
  EXPECT_GT(refused, 100);
  expect_user_error([] { read_sentencepiece_model("m", "not a model"); }, {"m: ", "not a sentencepiece model"});
}

// Rules for all texts of a and b of this length, whose endings share places. `to_itself`: the last place leads to itself.
CharsMap rules_of_length(uint32_t length, bool to_itself) {
  std::vector<uint32_t> units((length + 2) * 256, 0x80000000);  // values, which no byte leads to
  const auto unit = [](uint32_t offset, bool has_value, uint32_t label) {
    return offset << 10 | uint32_t{has_value} << 8 | label;
  };
  units[0] = unit(256, false, 0);
  for (uint32_t level = 1; level <= length; ++level)
    for (const uint32_t byte : {'a', 'b'}) {
      const uint32_t at = (level * 256) ^ byte, next = (to_itself && level == length ? level : level + 1) * 256;
      units[at] = unit(at ^ next, level == length, byte);
    }
  std::string blob(sizeof(uint32_t) * (units.size() + 1), '\0');
  const auto bytes = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::memcpy(blob.data(), &bytes, sizeof bytes);
  std::memcpy(blob.data() + sizeof bytes, units.data(), bytes);
  return {"m", blob};
}

TEST(SentencePiece, TheLongestRuleIsFound) {
  EXPECT_EQ(CharsMap("m", "").longest(), 0U);
  EXPECT_EQ(rules_of_length(1, false).longest(), 1U);
  EXPECT_EQ(rules_of_length(30, false).longest(), 30U);
  EXPECT_EQ(rules_of_length(30, false).find("abababababababababababababababab").length, 30U);
  EXPECT_EQ(rules_of_length(30, true).longest(), std::nullopt);
}

TEST(SentencePiece, WhatTheModelMustHave) {
  const auto open = [](SentencePieceModel model) { SentencePieceTokenizer(std::move(model), SpecialTokens::ordinary, {}); };
  using Type = SentencePiece::Type;
  const SentencePiece unknown{"<unk>", 0, Type::unknown};
  expect_user_error([&] { open({.source = "m", .pieces = {{"a", 0, Type::normal}}}); }, {"no unknown piece"});
  expect_user_error([&] { open({.source = "m", .pieces = {unknown, {"a", 0}, {"a", 0}}}); }, {"a is there twice"});
  expect_user_error(
      [&] {
        open({.source = "m", .byte_fallback = true, .pieces = {unknown, {"<0x00>", 0, Type::byte}}});
      },
      {"not 256 pieces for bytes"});
  expect_user_error(
      [&] {
        open({.source = "m", .byte_fallback = true, .pieces = {unknown, {"<0xZZ>", 0, Type::byte}}});
      },
      {"<0xZZ>"});
  // Field 1, a piece <unk> of type 2, and a trainer's field 3 that says word.
  expect_user_error([] { read_sentencepiece_model("m", std::string("\x0A\x09\x0A\x05<unk>\x18\x02\x12\x02\x18\x03")); },
                    {"type word", "bpe and unigram"});
}

}  // namespace
}  // namespace trireme

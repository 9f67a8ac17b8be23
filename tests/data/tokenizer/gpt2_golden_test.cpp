// GPT-2's vocabulary from each of its files, against tokens that tiktoken made.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/sha256.h"
#include "data/tokenizer/load_tokenizer.h"
#include "support/golden_data.h"

namespace trireme {
namespace {

void expect_golden(const Tokenizer& tokenizer, const char* name) {
  std::ifstream file(golden_data() / "gpt2" / name);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const auto golden = nlohmann::json::parse(line);
    const auto text = golden["text"].get<std::string>();
    EXPECT_EQ(tokenizer.encode(text), golden["ids"].get<std::vector<int32_t>>()) << line;
  }
  EXPECT_GE(lines, 20);
}

// The part of the vocabulary that the golden texts need, with the ids of the whole.
TEST(Gpt2Part, OrdinaryText) {
  const std::string folder = (golden_data() / "gpt2").string();
  expect_golden(*load_tokenizer(folder + "/vocab.json"), "golden.jsonl");
  expect_golden(*load_tokenizer(folder + "/r50k_base.tiktoken", {.pattern = WordPattern::gpt2}), "golden.jsonl");
}

TEST(Gpt2Part, SpecialTokensRecognised) {
  const auto tokenizer = load_tokenizer((golden_data() / "gpt2/vocab.json").string(), {.specials = SpecialTokens::recognised});
  EXPECT_EQ(tokenizer->vocabulary(), 50257);
  EXPECT_EQ(tokenizer->end_of_document(), 50256);
  expect_golden(*tokenizer, "golden_special.jsonl");
}

class Gpt2Whole : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { SKIP_WITHOUT_LARGE_GOLDEN(std::string("gpt2/") + GetParam()); }
  std::unique_ptr<Tokenizer> load(SpecialTokens specials) const {
    auto tokenizer = load_tokenizer((large_golden_data() / "gpt2" / GetParam()).string(), {.specials = specials});
    EXPECT_EQ(tokenizer->vocabulary(), 50257);
    EXPECT_EQ(tokenizer->end_of_document(), 50256);
    return tokenizer;
  }
};

TEST_P(Gpt2Whole, OrdinaryText) { expect_golden(*load(SpecialTokens::ordinary), "golden.jsonl"); }
TEST_P(Gpt2Whole, SpecialTokensRecognised) { expect_golden(*load(SpecialTokens::recognised), "golden_special.jsonl"); }

TEST_P(Gpt2Whole, TinyShakespeareAsAWhole) {
  SKIP_WITHOUT_LARGE_GOLDEN("text/tinyshakespeare.txt");
  std::ifstream file(large_golden_data() / "text/tinyshakespeare.txt", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto tokenizer = load(SpecialTokens::ordinary);
  const std::vector<int32_t> tokens = tokenizer->encode(text);
  const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
  const auto golden = nlohmann::json::parse(std::ifstream(golden_data() / "gpt2/golden_streams.json"))["tinyshakespeare.txt"];
  EXPECT_EQ(tokens.size(), golden["tokens"].get<size_t>());
  EXPECT_EQ(sha256(std::as_bytes(std::span(narrow))), golden["sha256_u16le"].get<std::string>());
  EXPECT_EQ(tokenizer->decode(tokens), text);
}

INSTANTIATE_TEST_SUITE_P(Files, Gpt2Whole, testing::Values("vocab.json", "r50k_base.tiktoken"));

}  // namespace
}  // namespace trireme

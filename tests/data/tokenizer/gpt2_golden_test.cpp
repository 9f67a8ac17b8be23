// GPT-2's vocabulary from each of its files, against tokens that tiktoken made.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/sha256.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/tokenizer_fixtures.h"

namespace trireme {
namespace {

class Gpt2Golden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder_ / GetParam())) GTEST_SKIP() << (folder_ / GetParam()) << " is not there";
  }
  std::filesystem::path folder_ = shared_data() / "gpt2";

  void expect_golden(const char* name, SpecialTokens specials) {
    const auto tokenizer = load_tokenizer((folder_ / GetParam()).string(), {.specials = specials});
    EXPECT_EQ(tokenizer->vocabulary(), 50257);
    EXPECT_EQ(tokenizer->end_of_document(), 50256);
    std::ifstream file(folder_ / name);
    int lines = 0;
    for (std::string line; std::getline(file, line); ++lines) {
      const auto golden = nlohmann::json::parse(line);
      const auto text = golden["text"].get<std::string>();
      EXPECT_EQ(tokenizer->encode(text), golden["ids"].get<std::vector<int32_t>>()) << line;
    }
    EXPECT_GE(lines, 20);
  }
};

TEST_P(Gpt2Golden, OrdinaryText) { expect_golden("golden.jsonl", SpecialTokens::ordinary); }
TEST_P(Gpt2Golden, SpecialTokensRecognised) { expect_golden("golden_special.jsonl", SpecialTokens::recognised); }

TEST_P(Gpt2Golden, TinyShakespeareAsAWhole) {
  std::ifstream file(shared_data() / "text/tinyshakespeare.txt", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto tokenizer = load_tokenizer((folder_ / GetParam()).string());
  const std::vector<int32_t> tokens = tokenizer->encode(text);
  const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
  const auto golden = nlohmann::json::parse(std::ifstream(folder_ / "golden_streams.json"))["tinyshakespeare.txt"];
  EXPECT_EQ(tokens.size(), golden["tokens"].get<size_t>());
  EXPECT_EQ(sha256(std::as_bytes(std::span(narrow))), golden["sha256_u16le"].get<std::string>());
  EXPECT_EQ(tokenizer->decode(tokens), text);
}

INSTANTIATE_TEST_SUITE_P(Files, Gpt2Golden, testing::Values("vocab.json", "r50k_base.tiktoken"));

}  // namespace
}  // namespace trireme

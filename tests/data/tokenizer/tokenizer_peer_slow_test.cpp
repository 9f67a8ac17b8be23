// tiktoken and Hugging Face tokenizers read what `trireme data train-tokenizer` wrote, and give the tokens that `trireme data
// encode` gives. Needs a Python with both packages: the one that TRIREME_PEER_PYTHON names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/run_program.h"
#include "data/tokenizer/tokenizer_fixtures.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

// Folder and, for tiktoken, which has no tokenizer.json, a pattern.
constexpr const char* kScript = R"(
import json, sys
import regex, tiktoken, tokenizers
folder, *pattern = sys.argv[1:]
texts = [json.loads(line)["text"] for line in open(folder + "/texts.jsonl", encoding="utf-8")]
ours = [json.loads(line) for line in open(folder + "/tokens.jsonl")]
assert len(ours) == len(texts)

definition = json.load(open(folder + "/tokenizer/tokenizer.json", encoding="utf-8"))
hugging_face = tokenizers.Tokenizer.from_file(folder + "/tokenizer/tokenizer.json")
hugging_face.encode_special_tokens = True
for text, tokens in zip(texts, ours):
    assert hugging_face.encode(text).ids == tokens, (text, hugging_face.encode(text).ids, tokens)
    assert pattern == ["--ids"] or hugging_face.decode(tokens, skip_special_tokens=False) == text, text
if not pattern or pattern == ["--ids"]:
    sys.exit()

visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
hidden = [byte for byte in range(256) if byte not in visible]
byte_of = {chr(byte): byte for byte in visible} | {chr(256 + i): byte for i, byte in enumerate(hidden)}
ranks = {bytes(byte_of[c] for c in token): i for token, i in definition["model"]["vocab"].items() if token != "<|endoftext|>"}
encoding = tiktoken.Encoding("made", pat_str=pattern[0], mergeable_ranks=ranks, special_tokens={})
for text, tokens in zip(texts, ours):
    assert encoding.encode_ordinary(text) == tokens, (text, encoding.encode_ordinary(text), tokens)
)";

constexpr const char* kSentencepieceScript = R"(
import json, sys
import sentencepiece
model, texts, ours = sys.argv[1:]
processor = sentencepiece.SentencePieceProcessor(model_file=model)
count = 0
for text, tokens in zip(open(texts, encoding="utf-8"), open(ours)):
    text, tokens = json.loads(text)["text"], json.loads(tokens)
    assert processor.encode(text) == tokens, (text, processor.encode(text), tokens)
    count += 1
assert count == 3000
)";

class TokenizerPeers : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    python_ = std::getenv("TRIREME_PEER_PYTHON");
    if (python_ == nullptr) SKIP_FOR(peer) << "TRIREME_PEER_PYTHON names no Python with tiktoken, tokenizers and regex";
    std::mt19937 random(21);
    std::ofstream texts(folder_ / "texts.jsonl");
    for (int i = 0; i < 3000; ++i)
      texts << nlohmann::json{{"text", random_text(random, 1 + random() % 40)}}.dump(-1, ' ', false,
                                                                                     nlohmann::json::error_handler_t::replace)
            << '\n';
  }

  void train(const std::string& pattern) {
    const ProgramResult trained = run_program("data train-tokenizer " + root_ + "/texts.jsonl --vocab-size 1500 --pattern " +
                                              pattern + " --output " + root_ + "/tokenizer");
    ASSERT_EQ(trained.status, 0) << trained.output;
  }

  void encode() {
    const ProgramResult encoded = run_program("data encode --jsonl --tokenizer " + root_ + "/tokenizer < " + root_ +
                                              "/texts.jsonl > " + root_ + "/tokens.jsonl");
    ASSERT_EQ(encoded.status, 0) << encoded.output;
  }

  int compare(const std::string& pattern_for_tiktoken) {
    std::ofstream(folder_ / "compare.py") << kScript;
    return std::system((std::string(python_) + " " + root_ + "/compare.py " + root_ + pattern_for_tiktoken).c_str());
  }

  const char* python_ = nullptr;
  const TemporaryFolder folder_;
  const std::string root_ = folder_.path().string();
};

using SentencepiecePeer = TokenizerPeers;

TEST_P(SentencepiecePeer, GivesTheTokensThatWeGive) {
  if (std::system((std::string(python_) + " -c 'import sentencepiece' 2>/dev/null").c_str()) != 0)
    SKIP_FOR(peer) << "the Python that TRIREME_PEER_PYTHON names has no sentencepiece";
  const std::string model = std::string(TRIREME_SOURCE_DIR "/tests/data/tokenizer/sentencepiece/") + GetParam() + ".model";
  const ProgramResult encoded =
      run_program("data encode --jsonl --tokenizer " + model + " < " + root_ + "/texts.jsonl > " + root_ + "/tokens.jsonl");
  ASSERT_EQ(encoded.status, 0) << encoded.output;
  std::ofstream(folder_ / "compare.py") << kSentencepieceScript;
  EXPECT_EQ(std::system((std::string(python_) + " " + root_ + "/compare.py " + model + " " + root_ + "/texts.jsonl " + root_ +
                         "/tokens.jsonl")
                            .c_str()),
            0);
}

INSTANTIATE_TEST_SUITE_P(Models, SentencepiecePeer, testing::Values("bpe_bytes", "bpe_rules", "unigram_bytes", "unigram_rules"));

TEST_P(TokenizerPeers, ReadOurVocabularyAndAgree) {
  ASSERT_NO_FATAL_FAILURE(train(GetParam()));
  ASSERT_NO_FATAL_FAILURE(encode());
  std::string quoted = " '";
  for (const char character : regex_of(*pattern_named(GetParam())))
    quoted += character == '\'' ? std::string("'\\''") : std::string(1, character);
  EXPECT_EQ(compare(quoted + "'"), 0);
}

// A tokenizer.json that carries tiktoken's own expression: its {1,3}+ repeats in Hugging Face tokenizers and does not in
// tiktoken. As the file is theirs, so are the tokens.
using TokenizerPeer = TokenizerPeers;
TEST_F(TokenizerPeer, HuggingFaceReadsTiktokensExpressionAsWeDo) {
  ASSERT_NO_FATAL_FAILURE(train("cl100k"));
  const std::string file = root_ + "/tokenizer/tokenizer.json";
  std::string definition = read_file(file, 1 << 24);
  const size_t count = definition.find("{1,3}|");
  ASSERT_NE(count, std::string::npos);
  definition.insert(count + 5, "+");
  std::ofstream(file) << definition;
  ASSERT_NO_FATAL_FAILURE(encode());
  EXPECT_EQ(compare(""), 0);
}

// What a tokenizer.json may say besides: a normal form, added tokens that are found before and after it, merges that are there
// twice.
TEST_F(TokenizerPeer, HuggingFaceNormalizesAndFindsAddedTokensAsWeDo) {
  ASSERT_NO_FATAL_FAILURE(train("llama3"));
  const std::string file = root_ + "/tokenizer/tokenizer.json";
  auto definition = nlohmann::json::parse(read_file(file, 1 << 24));
  definition["normalizer"] = {{"type", "NFC"}};
  // Theirs gives no other numbers than that of the vocabulary, or the next.
  const auto& vocabulary = definition["model"]["vocab"];
  int next = definition["added_tokens"].back()["id"].get<int>() + 1;
  for (const auto& [content, normalized] : {std::pair("e\u0301", true), std::pair("the", true), std::pair("  ", true),
                                            std::pair("ing", false), std::pair("=", false), std::pair("== a", true)})
    definition["added_tokens"].push_back({{"id", vocabulary.contains(content) ? vocabulary[content].get<int>() : next++},
                                          {"content", content},
                                          {"single_word", false},
                                          {"lstrip", false},
                                          {"rstrip", false},
                                          {"normalized", normalized},
                                          {"special", false}});
  auto& merges = definition["model"]["merges"];
  const auto copy = merges;
  for (size_t i = 0; i < 100; ++i) merges.push_back(copy[i * 3]);
  std::ofstream(file) << definition.dump();
  std::mt19937 random(5);
  std::ofstream texts(folder_ / "texts.jsonl", std::ios::app);
  const char* marks[] = {"\u0301", "\u0323", "\u0345", "\u1ACE", "\u08D3", "\u1DF9", "\U00011930", "\u0338", "\u3099", "\uFB1D"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int j = 0; j < 20; ++j) text += random() % 2 == 0 ? marks[random() % std::size(marks)] : random_text(random, 1);
    texts << nlohmann::json{{"text", text}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  }
  texts.close();
  ASSERT_NO_FATAL_FAILURE(encode());
  EXPECT_EQ(compare(" --ids"), 0);
}

INSTANTIATE_TEST_SUITE_P(Patterns, TokenizerPeers, testing::Values("gpt2", "cl100k", "llama3", "qwen2", "o200k"));

}  // namespace
}  // namespace trireme

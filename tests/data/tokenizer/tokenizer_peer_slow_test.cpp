// tiktoken and Hugging Face tokenizers read what `trireme data train-tokenizer` wrote, and give the tokens that `trireme data
// encode` gives. Needs a Python with both packages: the one that TRIREME_PEER_PYTHON names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/run_program.h"
#include "data/tokenizer/tokenizer_fixtures.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr const char* kScript = R"(
import json, sys
import regex, tiktoken, tokenizers
folder, pattern = sys.argv[1:3]
texts = [json.loads(line)["text"] for line in open(folder + "/texts.jsonl", encoding="utf-8")]
ours = [json.loads(line) for line in open(folder + "/tokens.jsonl")]
assert len(ours) == len(texts)

definition = json.load(open(folder + "/tokenizer/tokenizer.json", encoding="utf-8"))
hugging_face = tokenizers.Tokenizer.from_file(folder + "/tokenizer/tokenizer.json")
hugging_face.encode_special_tokens = True
for text, tokens in zip(texts, ours):
    assert hugging_face.encode(text).ids == tokens, (text, hugging_face.encode(text).ids, tokens)
    assert hugging_face.decode(tokens, skip_special_tokens=False) == text, text

visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
hidden = [byte for byte in range(256) if byte not in visible]
byte_of = {chr(byte): byte for byte in visible} | {chr(256 + i): byte for i, byte in enumerate(hidden)}
ranks = {bytes(byte_of[c] for c in token): i for token, i in definition["model"]["vocab"].items() if token != "<|endoftext|>"}
encoding = tiktoken.Encoding("made", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
for text, tokens in zip(texts, ours):
    assert encoding.encode_ordinary(text) == tokens, (text, encoding.encode_ordinary(text), tokens)
)";

class TokenizerPeers : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerPeers, ReadOurVocabularyAndAgree) {
  const char* python = std::getenv("TRIREME_PEER_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "TRIREME_PEER_PYTHON names no Python with tiktoken, tokenizers and regex";
  const TemporaryFolder folder;
  std::mt19937 random(21);
  std::ofstream texts(folder / "texts.jsonl");
  for (int i = 0; i < 3000; ++i)
    texts << nlohmann::json{{"text", random_text(random, 1 + random() % 40)}}.dump(-1, ' ', false,
                                                                                   nlohmann::json::error_handler_t::replace)
          << '\n';
  texts.close();
  const std::string root = folder.path().string();
  const ProgramResult trained = run_program("data train-tokenizer " + root + "/texts.jsonl --vocab-size 1500 --pattern " +
                                            GetParam() + " --output " + root + "/tokenizer");
  ASSERT_EQ(trained.status, 0) << trained.output;
  const ProgramResult encoded = run_program("data encode --jsonl --tokenizer " + root + "/tokenizer < " + root +
                                            "/texts.jsonl > " + root + "/tokens.jsonl");
  ASSERT_EQ(encoded.status, 0) << encoded.output;
  std::ofstream(folder / "compare.py") << kScript;
  const std::string expression(regex_of(*pattern_named(GetParam())));
  std::string quoted = "'";
  for (const char character : expression) quoted += character == '\'' ? std::string("'\\''") : std::string(1, character);
  EXPECT_EQ(std::system((std::string(python) + " " + root + "/compare.py " + root + " " + quoted + "'").c_str()), 0);
}

INSTANTIATE_TEST_SUITE_P(Patterns, TokenizerPeers, testing::Values("gpt2", "cl100k", "llama3", "qwen2", "o200k"));

}  // namespace
}  // namespace trireme

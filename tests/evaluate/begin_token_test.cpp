// Which token begins a text, from the files that transformers reads.
#include "evaluate/begin_token.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr const char* kConfig = R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})";

std::string tokenizer_json(const std::string& processor) {
  return R"({"added_tokens": [{"id": 3, "content": "<s>"}], "model": {"vocab": {"a": 0}}, "post_processor": )" + processor + "}";
}

class BeginTokens : public testing::Test {
 protected:
  BeginToken found(const std::string& name = "") const { return begin_token_of(name.empty() ? folder_.path() : folder_ / name); }
  TemporaryFolder folder_;
};

TEST_F(BeginTokens, TheTemplateOfTokenizerJsonDecides) {
  const std::string json =
      folder_.write("tokenizer.json",
                    tokenizer_json(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}}]})"));
  EXPECT_EQ(found().id, 3);
  EXPECT_TRUE(found().is_added);
  EXPECT_TRUE(found("tokenizer.json").is_added) << "a file of the folder stands for it";
  folder_.write("tokenizer.json", tokenizer_json("null"));
  EXPECT_FALSE(found().id.has_value());
  folder_.write("tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": true})");
  EXPECT_EQ(found().id, 3);
  EXPECT_FALSE(found().is_added) << "as transformers, which then leaves out add_bos_token";
}

TEST_F(BeginTokens, WithoutTokenizerJsonItsConfigDecides) {
  folder_.write("vocab.json", R"({"<s>": 5})");
  folder_.write("tokenizer_config.json", kConfig);
  EXPECT_EQ(found().id, 5);
  EXPECT_FALSE(found().is_added);
  folder_.write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "add_bos_token": true})");
  EXPECT_TRUE(found().is_added);
}

TEST_F(BeginTokens, StrangeFilesHaveNone) {
  EXPECT_FALSE(found().id.has_value());
  for (const char* text : {"", "[1]", "{\"bos_token\": 3}", "{\"bos_token\": \"<none>\"}"}) {
    folder_.write("tokenizer_config.json", text);
    folder_.write("tokenizer.json", R"({"post_processor": {"single": [1]}, "added_tokens": 7, "model": []})");
    EXPECT_FALSE(found().id.has_value()) << text;
  }
}

}  // namespace
}  // namespace trireme

#include "data/json_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/golden_data.h"

namespace trireme {
namespace {

TEST(JsonText, ReadsTheTextWhateverStandsAroundIt) {
  JsonTextReader reader("text");
  const auto text = [&](std::string_view line) {
    const JsonText found = reader.read(line);
    EXPECT_EQ(found.status, JsonText::Status::found) << line << ": " << reader.describe(found);
    return std::string(found.text);
  };
  EXPECT_EQ(text(R"({"meta": {"text": "wrong", "a": ["text", {"text": 1}]}, "text": "right"})"), "right");
  EXPECT_EQ(text(R"({"te\u0078t":"a\/b\\c\"d\b\f\n\r\t"})"), "a/b\\c\"d\b\f\n\r\t");
  EXPECT_EQ(text(" {\"text\" : \"\\ud83d\\ude00\" , \"n\": -1.5e-3, \"b\":[true,false,null,[],{}]}\r"), "😀");
  EXPECT_EQ(text(R"({"text": 1, "text": "last"})"), "last");
}

TEST(JsonText, CountsWhatItReplaces) {
  JsonTextReader reader("text");
  const JsonText lone = reader.read(R"({"text": "\ud83d \ude00\ud83d"})");
  EXPECT_EQ(lone.text, "\uFFFD \uFFFD\uFFFD");
  EXPECT_EQ(lone.surrogates, 3);
  const JsonText bytes = reader.read("{\"text\": \"a\xFF\xE4\xB8z\"}");
  EXPECT_EQ(bytes.text, "a\uFFFD\uFFFDz");
  EXPECT_EQ(bytes.invalid_utf8, 2);
}

TEST(JsonText, SaysWhatIsWrong) {
  JsonTextReader reader("text");
  const auto status = [&](std::string_view line) { return reader.read(line).status; };
  for (const char* line :
       {"", "[]", "\"text\"", "{", "{\"text\"", "{\"text\": \"a", "{\"text\": \"a\\q\"}", "{\"text\": \"\\u12\"}",
        "{\"text\": \"a\"} x", "{\"text\": \"a\"", "{\"text\": \"a\",}", "{\"a\": 01, \"text\": \"\"}", "{\"a\": tru}",
        "{\"a\": [1,]}", "{\"a\": {\"b\" 1}}", "{\"text\": \"a\nb\"}", "{'text': 'a'}", "{\"a\": ]}"})
    EXPECT_EQ(status(line), JsonText::Status::malformed) << line;
  EXPECT_EQ(status(std::string_view("{\"text\": \"\0\"}", 13)), JsonText::Status::malformed);
  EXPECT_EQ(status(R"({"tex": "a"})"), JsonText::Status::no_key);
  EXPECT_EQ(status(R"({"text": ["a"]})"), JsonText::Status::not_text);
  EXPECT_EQ(status("{\"a\": " + std::string(2000, '[') + std::string(2000, ']') + "}"), JsonText::Status::malformed)
      << "too deep";
  EXPECT_EQ(reader.read("{\"text\": nul}").at, 9U);
}

TEST(JsonText, AgreesWithTheEdgeCases) {
  const std::filesystem::path folder = golden_data() / "json_edge";
  std::ifstream input(folder / "input.jsonl"), expected(folder / "expected.jsonl");
  JsonTextReader reader("text");
  int lines = 0;
  for (std::string line, golden; std::getline(input, line) && std::getline(expected, golden); ++lines)
    EXPECT_EQ(reader.read(line).text, nlohmann::json::parse(golden)["text"].get<std::string>()) << line;
  EXPECT_EQ(lines, 30);
}

}  // namespace
}  // namespace trireme

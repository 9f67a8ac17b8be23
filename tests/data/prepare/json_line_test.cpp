// The text of a line of JSON, as Python's json module would give it.
#include "data/prepare/json_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/utf8.h"
#include "support/golden_data.h"

namespace trireme::prepare {
namespace {

struct Read {
  LineStatus status;
  std::string text;
  int64_t lone_surrogates = 0;
  std::string problem;
  size_t problem_at = 0;
};

// In memory that ends with the line, so that a sanitizer sees every byte too many.
Read read(const std::string& line, const std::string& key = "text") {
  const std::vector<char> exact(line.begin(), line.end());
  TextScratch scratch;
  scratch.reset(exact.size());
  const LineText result = JsonLineReader(key).read({exact.data(), exact.size()}, scratch);
  return {result.status, std::string(result.text), result.lone_surrogates, result.problem, result.problem_at};
}

std::string text_of(const std::string& line) {
  const Read result = read(line);
  EXPECT_EQ(result.status, LineStatus::text) << line << ": " << result.problem;
  return result.text;
}

TEST(JsonLine, FindsTheKeyWhereverItStands) {
  EXPECT_EQ(text_of(R"({"text": "a"})"), "a");
  EXPECT_EQ(text_of(R"({"meta": {"text": "no", "l": [1, {"text": "no"}, []]}, "text": "a", "n": -1.5e-3})"), "a");
  EXPECT_EQ(text_of(R"(  {"te\u0078t" : "a" }  )"), "a");
  EXPECT_EQ(text_of(R"({"text": "first", "text": "last"})"), "last");
  EXPECT_EQ(text_of(R"({"x": "text\":", "text": "a"})"), "a");
  EXPECT_EQ(text_of(R"({"x": NaN, "y": -Infinity, "z": [true, false, null], "text": ""})"), "");
  EXPECT_EQ(text_of("{\"text\": \"a\"}\r"), "a");
  EXPECT_EQ(read(R"({"content": "a"})", "content").text, "a");
}

TEST(JsonLine, ReadsBareStringsAndLists) {
  EXPECT_EQ(text_of(R"("bare \n line")"), "bare \n line");
  EXPECT_EQ(text_of(R"({"text": ["a", "b\t", "c"]})"), "a\n\nb\t\n\nc");
  EXPECT_EQ(text_of(R"({"text": ["", "b"]})"), "\n\nb");
  EXPECT_EQ(text_of(R"({"text": []})"), "");
}

TEST(JsonLine, UnescapesEverything) {
  EXPECT_EQ(text_of(R"({"text": "\"\\\/\b\f\n\r\t\u0041\u00e9\u4e2d\uD83D\uDE00"})"),
            "\"\\/\b\f\n\r\tA\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80");
  EXPECT_EQ(text_of(R"({"text": "a\u0000b"})"), std::string("a\0b", 3));
  const Read lone = read(R"({"text": "\ud83d \ude00 \ud83d\ud83d\ude00 \ud83d\n"})");
  EXPECT_EQ(lone.text, "\xEF\xBF\xBD \xEF\xBF\xBD \xEF\xBF\xBD\xF0\x9F\x98\x80 \xEF\xBF\xBD\n");
  EXPECT_EQ(lone.lone_surrogates, 4);
  // Escapes at every place of the chunks that are looked at together.
  for (size_t before = 0; before < 40; ++before)
    EXPECT_EQ(text_of("{\"text\": \"" + std::string(before, 'x') + "\\n" + std::string(50 - before, 'y') + "\"}"),
              std::string(before, 'x') + "\n" + std::string(50 - before, 'y'));
}

struct Bad {
  std::string line;
  LineStatus status;
  size_t at = 0;
};

TEST(JsonLine, SaysWhatIsWrongAndWhere) {
  using enum LineStatus;
  const std::vector<Bad> table = {
      {"", blank},
      {" \t\r", blank},
      {"{}", no_key},
      {R"({"other": "x"})", no_key},
      {"[1, 2]", no_key},
      {"12", no_key},
      {"null", no_key},
      {R"({"text": 5})", not_text},
      {R"({"text": null})", not_text},
      {R"({"text": {"a": "b"}})", not_text},
      {R"({"text": ["a", 5]})", not_text},
      {R"({"text": ["a", ["b"]]})", not_text},
      {"{", malformed, 1},
      {"nul", malformed, 0},
      {R"({"text": "a")", malformed, 12},
      {R"({"text": "a}))", malformed, 13},
      {R"({"text": "a"} x)", malformed, 14},
      {R"({"text" "a"})", malformed, 8},
      {R"({text: "a"})", malformed, 1},
      {R"({"text": "a",})", malformed, 13},
      {R"({"a": [1, 2, "text": "a"})", malformed, 19},
      {R"({"a": [1, 2}, "text": "a"})", malformed, 11},
      {R"({"a": 01, "text": "a"})", malformed, 7},
      {R"({"a": 1., "text": "a"})", malformed, 8},
      {R"({"a": -, "text": "a"})", malformed, 6},
      {R"({"text": "\x"})", malformed, 10},
      {R"({"text": "\u12G4"})", malformed, 10},
      {R"({"text": "\u12)", malformed, 10},
      {R"({"text": "\)", malformed, 10},
      {std::string("{\"text\": \"a\0b\"}", 15), malformed, 11},
      {"{\"text\": \"a\tb\"}", malformed, 11},
      {std::string(3000, '['), malformed, 1025},
      {"{\"a\": " + std::string(3000, '[') + "}", malformed, 1031},
  };
  for (const Bad& bad : table) {
    const Read result = read(bad.line);
    EXPECT_EQ(result.status, bad.status) << bad.line.substr(0, 60) << ": " << result.problem;
    EXPECT_EQ(result.problem_at, bad.at) << bad.line.substr(0, 60) << ": " << result.problem;
    EXPECT_EQ(result.problem.empty(), bad.status != malformed) << bad.line.substr(0, 60);
  }
}

// Against another reader, on whole objects and on objects with a byte changed.
TEST(JsonLine, AgreesWithAnotherReaderOnRandomLines) {
  std::mt19937 random(7);
  const auto below = [&](size_t most) { return static_cast<size_t>(random() % most); };
  const std::vector<std::string> pieces = {"a",        "text", "\\n",  "\\u00e9", "\\ud83d\\ude00",
                                           "\xC3\xA9", "\\\\", "\\\"", "x\\/y",   " "};
  const auto string = [&] {
    std::string made = "\"";
    for (size_t i = below(12); i > 0; --i) made += pieces[below(pieces.size())];
    return made + "\"";
  };
  const std::vector<std::string> values = {"1", "-0.5e+7", "true", "null", "[]", "{}", R"([1, "a", {"text": 2}])"};
  int64_t good = 0, bad = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string line = "{";
    for (size_t i = below(4); i > 0; --i)
      line += "\"k" + std::to_string(i) + "\": " + (below(2) == 0 ? string() : values[below(values.size())]) + ", ";
    line += "\"text\": " + string() + "}";
    if (below(2) == 0) line[below(line.size())] = "\"\\{}[],:0a \n"[below(12)];
    const auto parsed = nlohmann::json::parse(line, nullptr, false);
    const Read result = read(line);
    if (parsed.is_object() && parsed.contains("text") && parsed["text"].is_string()) {
      ++good;
      ASSERT_EQ(result.status, LineStatus::text) << line << ": " << result.problem;
      ASSERT_EQ(result.text, parsed["text"].get<std::string>()) << line;
    } else if (parsed.is_discarded()) {
      ++bad;
      // The other reader also refuses half a surrogate pair and half a character, which are repaired here.
      const bool repaired = line.find("\\ud") != std::string::npos || valid_utf8_prefix(line) < line.size();
      ASSERT_TRUE(result.status == LineStatus::malformed || repaired) << line;
    }
  }
  EXPECT_GT(good, 5000);
  EXPECT_GT(bad, 3000);
}

TEST(JsonLine, ReadsTheEdgeCasesOfTheFacts) {
  const std::filesystem::path folder = golden_data() / "json_edge";
  std::ifstream input(folder / "input.jsonl"), expected(folder / "expected.jsonl");
  std::string line, answer;
  int64_t lines = 0;
  while (std::getline(input, line) && std::getline(expected, answer)) {
    EXPECT_EQ(text_of(line), nlohmann::json::parse(answer)["text"].get<std::string>()) << line;
    ++lines;
  }
  EXPECT_EQ(lines, 30);
}

TEST(Utf8, ReplacesAsPythonDoes) {
  struct Case {
    std::string text, repaired;
    int64_t count;
  };
  const std::string r = "\xEF\xBF\xBD";
  const std::vector<Case> table = {
      {"plain", "plain", 0},
      {"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80", "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80", 0},
      {"a\xFFz", "a" + r + "z", 1},
      {"\xC0\x80", r + r, 2},          // overlong
      {"\xED\xA0\x80", r + r + r, 3},  // a surrogate
      {"\xF4\x90\x80\x80", r + r + r + r, 4},
      {"\xE4\xB8", r, 1},  // cut off: one for what is there
      {"\xE4\xB8z", r + "z", 1},
      {"\xF0\x9F\x98z", r + "z", 1},
      {"\xF0\x80\x80", r + r + r, 3},
      {"\xF0\x9F\x98\x80\x80", "\xF0\x9F\x98\x80" + r, 1},
      {"12345678\x80"
       "12345678",
       "12345678" + r + "12345678", 1},
  };
  for (const Case& c : table) {
    std::string out;
    EXPECT_EQ(replace_invalid_utf8(c.text, out), c.count);
    EXPECT_EQ(out, c.repaired);
    EXPECT_EQ(valid_utf8_prefix(c.text) == c.text.size(), c.count == 0);
  }
}

}  // namespace
}  // namespace trireme::prepare

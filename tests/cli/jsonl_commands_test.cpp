// prepare, encode and train-tokenizer take the same lines of .jsonl, and refuse the same.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

struct OddLine {
  std::string line;
  std::string text;  // what is in it
};

const std::vector<OddLine>& good_lines() {
  static const std::vector<OddLine> lines = {
      {R"({"meta": {"text": "wrong"}, "te\u0078t": "right"})", "right"},
      {R"({"text": 1, "text": "last of two"})", "last of two"},
      {R"("a bare string")", "a bare string"},
      {R"({"text": ["one", "two"]})", "one\n\ntwo"},
      {R"({"text": "beside no numbers", "a": [NaN, Infinity, -Infinity]})", "beside no numbers"},
      {"\xEF\xBB\xBF{\"text\": \"after a byte order mark\"}", "after a byte order mark"},
      {"\n \t\r\n{\"text\": \"after blank lines\"}\r", "after blank lines"},
      {R"({"text": "a surrogate \ud800 alone"})", "a surrogate \uFFFD alone"},
      {"{\"text\": \"not \xFF UTF-8\"}", "not \uFFFD UTF-8"},
      {R"({"text": "deep", "a": )" + std::string(1020, '[') + std::string(1020, ']') + "}", "deep"},
  };
  return lines;
}

const char* const kBadLines[] = {"{",
                                 "{\"text\": \"a\"} x",
                                 "{'text': 'a'}",
                                 "{\"text\": \"a\\q\"}",
                                 "[1, 2]",
                                 "{\"tex\": \"a\"}",
                                 "{\"text\": 1}",
                                 "{\"text\": [\"a\", 1]}",
                                 "{\"text\"}",
                                 "{\"a\": 01, \"text\": \"\"}",
                                 "{\"text\": null}",
                                 "nonsense"};

std::string numbers_of(const std::string& text) {
  std::string numbers;
  for (const char byte : text) numbers += (numbers.empty() ? "" : ", ") + std::to_string(static_cast<unsigned char>(byte));
  return "[" + numbers + "]\n";
}

struct Results {
  ProgramResult prepare, encode, train;
};

Results run_all(const TemporaryFolder& folder, const std::string& line, const std::string& name = "odd.jsonl") {
  const std::string file = folder.write(name, line + "\n");
  const std::string output = (folder / "dataset").string(), trained = (folder / "trained").string();
  return {run_program("data prepare " + file + " --tokenizer bytes --output " + output),
          run_program("data encode --jsonl --tokenizer bytes < " + file),
          run_program("data train-tokenizer --json --overwrite --vocab-size 300 --output " + trained + " " + file)};
}

std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(JsonlCommands, TakeTheSameOddLines) {
  for (const OddLine& odd : good_lines()) {
    const TemporaryFolder folder;
    const Results results = run_all(folder, odd.line);
    ASSERT_EQ(results.prepare.status, 0) << odd.line << results.prepare.output;
    std::string tokens;  // uint16, little-endian
    for (const char byte : odd.text) (tokens += byte) += '\0';
    EXPECT_EQ(bytes_of_file(folder / "dataset_text_document.bin"), tokens) << odd.line;
    EXPECT_TRUE(results.encode.output.starts_with(numbers_of(odd.text))) << odd.line << results.encode.output;
    ASSERT_EQ(results.train.status, 0) << odd.line << results.train.output;
    EXPECT_EQ(nlohmann::json::parse(results.train.output)["bytes"], odd.text.size()) << odd.line;
  }
}

TEST(JsonlCommands, RefuseTheSameLinesWithTheSameWords) {
  for (const char* line : kBadLines) {
    const TemporaryFolder folder;
    const Results results = run_all(folder, std::string("{\"text\": \"good\"}\n") + line);
    for (const ProgramResult* result : {&results.prepare, &results.encode, &results.train})
      EXPECT_EQ(result->status, 2) << line << ": " << result->output;
    const std::string& said = results.encode.output;
    const size_t begin = said.find("line 2: ") + 8;
    const std::string problem = said.substr(begin, said.find_first_of(",;", begin) - begin);
    EXPECT_NE(results.prepare.output.find(problem), std::string::npos) << problem << " in " << results.prepare.output;
    EXPECT_NE(results.train.output.find("odd.jsonl:2: " + problem), std::string::npos)
        << problem << " in " << results.train.output;
  }
}

TEST(JsonlCommands, KnowTheSameNamesOfFiles) {
  for (const std::string name : {"odd.json", "odd.ndjson"}) {
    const TemporaryFolder folder;
    const Results results = run_all(folder, "{\"text\": \"four\"}", name);
    EXPECT_EQ(results.prepare.status, 0) << results.prepare.output;
    EXPECT_EQ(nlohmann::json::parse(results.train.output)["bytes"], 4) << name;
  }
  const TemporaryFolder folder;
  const std::string packed = folder.write("packed.jsonl", "{\"text\": \"four\"}\n");
  ASSERT_EQ(run_shell("gzip " + packed).status, 0);
  const std::string train =
      "data train-tokenizer --json --overwrite --vocab-size 300 --output " + (folder / "trained").string() + " ";
  EXPECT_EQ(nlohmann::json::parse(run_program(train + packed + ".gz").output)["bytes"], 4);
  const ProgramResult archive = run_program(train + folder.write("some.tar", "x"));
  EXPECT_EQ(archive.status, 2);
  EXPECT_NE(archive.output.find("may be an archive"), std::string::npos) << archive.output;
}

}  // namespace
}  // namespace trireme

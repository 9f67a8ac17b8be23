// trireme data encode, decode and train-tokenizer as a user meets them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/run_program.h"
#include "support/golden_data.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

std::string encode(const TemporaryFolder& folder, const std::string& input, const std::string& options, int status = 0) {
  const ProgramResult result = run_program("data encode " + options + " < " + folder.write("input", input));
  EXPECT_EQ(result.status, status) << result.output;
  return result.output;
}

TEST(DataEncode, TextToNumbersAndBack) {
  const TemporaryFolder folder;
  EXPECT_EQ(encode(folder, "Hi!", "--tokenizer bytes"), "72 105 33\n");
  const ProgramResult decoded = run_program("data decode --tokenizer bytes < " + folder.write("numbers", "72 105 33\n"));
  EXPECT_EQ(decoded.output, "Hi!");
}

TEST(DataEncode, LinesToArraysAndBack) {
  const TemporaryFolder folder;
  EXPECT_EQ(encode(folder, "{\"text\": \"Hi\"}\n\n{\"text\": \"\"}\n", "--tokenizer bytes --jsonl"), "[72, 105]\n[]\n");
  EXPECT_EQ(encode(folder, "{\"body\": \"Hi\"}", "--tokenizer bytes --jsonl --key body"), "[72, 105]\n");
  const ProgramResult decoded =
      run_program("data decode --jsonl --tokenizer bytes < " + folder.write("numbers", "[72, 105]\n[]\n"));
  EXPECT_EQ(decoded.output, "{\"text\":\"Hi\"}\n{\"text\":\"\"}\n");
}

TEST(DataEncode, BadLinesStopOrAreCounted) {
  const TemporaryFolder folder;
  const std::string lines = "{\"text\": \"a\"}\n{\"text\": 1}\nnonsense\n{\"text\": \"\\ud800\"}\n{\"text\": \"\xff\"}\n";
  const std::string stopped = encode(folder, lines, "--tokenizer bytes --jsonl", 2);
  EXPECT_NE(stopped.find("line 2: the value of \"text\" is no text"), std::string::npos) << stopped;
  const std::string skipped = encode(folder, lines, "--tokenizer bytes --jsonl --on-error skip");
  for (const char* words : {"[97]\n", "[239, 191, 189]\n", "line 3: not JSON: a value was expected, at byte 0", "2 lines skipped",
                            "1 lone surrogates", "1 sequences that were not UTF-8"})
    EXPECT_NE(skipped.find(words), std::string::npos) << words << " in " << skipped;
}

TEST(DataEncode, MistakesAreAnsweredInOneLine) {
  for (const char* arguments :
       {"data", "data encode", "data encode --tokenizer /no/such/file", "data encode --tokenizer bytes --on-error perhaps",
        "data train-tokenizer /no/such/file --output /tmp/never", "data decode --tokenizer bytes < /etc/passwd"}) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.status, 2) << arguments << ": " << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << arguments << ": " << result.output;
  }
}

TEST(DataTrainTokenizer, MakesATokenizerThatEncodeReads) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the cat and the other cat sat on the mat\n";
  const std::string output = (folder / "tokenizer").string(), corpus = folder.write("corpus.txt", text);
  const ProgramResult trained = run_program("data train-tokenizer --json --vocab-size 300 --output " + output + " " + corpus);
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_LE(nlohmann::json::parse(trained.output)["vocabulary"], 300);
  const std::string numbers = encode(folder, "the cat", "--tokenizer " + output);
  EXPECT_EQ(std::count(numbers.begin(), numbers.end(), ' '), 1) << numbers;  // two tokens
  EXPECT_EQ(run_program("data decode --tokenizer " + output + " < " + folder.write("numbers", numbers)).output, "the cat");
  const ProgramResult again = run_program("data train-tokenizer --vocab-size 300 --output " + output + " " + corpus);
  EXPECT_EQ(again.status, 2) << "what is there is not overwritten";
}

TEST(DataEncode, AgreesWithTheEdgeCasesAndTheSpecialTokens) {
  const std::string vocabulary = (golden_data() / "gpt2/vocab.json").string();
  const ProgramResult result =
      run_program("data encode --jsonl --tokenizer " + vocabulary + " < " + (golden_data() / "json_edge/input.jsonl").string(),
                  "2>/dev/null");
  std::istringstream lines(result.output);
  std::ifstream expected(golden_data() / "json_edge/expected.jsonl");
  int compared = 0;
  for (std::string golden, line; std::getline(expected, golden); ++compared) {
    do {
      ASSERT_TRUE(std::getline(lines, line)) << compared;
    } while (!line.starts_with('['));  // what was repaired is said on stderr
    EXPECT_EQ(nlohmann::json::parse(line), nlohmann::json::parse(golden)["ids"]) << golden;
  }
  EXPECT_EQ(compared, 30);
}

}  // namespace
}  // namespace trireme

// trireme data prepare as its users meet it: killed, short of disk and memory, mistaken.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "cli/run_program.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string contents(const fs::path& path) { return read_file(path, int64_t{1} << 32); }

class DataPrepareTest : public testing::Test {
 protected:
  std::string lines(size_t count) const {
    std::string text;
    for (size_t i = 0; i < count; ++i)
      text += fmt::format("{{\"text\": \"document {}\\n{}\", \"meta\": {}}}\n", i, std::string(i * 7919 % 3000, 'x'), i);
    return text;
  }
  std::string prepare(const std::string& input, const std::string& output, const std::string& more = "") const {
    return fmt::format("data prepare {} --tokenizer bytes --append-eod --output {} {}", input, (folder_ / output).string(), more);
  }
  std::string dataset(const std::string& output) const {
    const std::string prefix = (folder_ / output).string() + "_text_document";
    return contents(prefix + ".bin") + contents(prefix + ".idx");
  }

  // One that is none of the published: all 256 bytes, in order.
  std::string write_rank_file() const {
    constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string ranks;
    for (size_t byte = 0; byte < 256; ++byte)
      ranks += fmt::format("{}{}== {}\n", kAlphabet[byte >> 2], kAlphabet[(byte & 3) << 4], byte);
    return folder_.write("own.tiktoken", ranks);
  }

  TemporaryFolder folder_;
};

// Starts the program, kills it after a while; whether it came to its end before.
bool run_and_kill(const std::string& arguments, int64_t microseconds) {
  const std::string command = fmt::format("exec {} {} > /dev/null 2>&1", TRIREME_BINARY, arguments);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  ::usleep(static_cast<useconds_t>(microseconds));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

using DataPrepareSlow = DataPrepareTest;

TEST_F(DataPrepareSlow, KilledAtAnyMomentAndStartedAgainTheFilesAreTheSame) {
  for (int i = 0; i < 4; ++i) folder_.write(fmt::format("in/{}.jsonl", i), lines(8000));
  const std::string input = (folder_ / "in").string();
  ASSERT_EQ(run_program(prepare(input, "right", "--workers 1")).status, 0);
  std::mt19937 random(std::random_device{}());
  int kills = 0;
  while (kills < 5) {
    const int64_t after = 1000 + static_cast<int64_t>(random() % 400000);
    if (!run_and_kill(prepare(input, "killed", "--workers 2"), after)) {
      ++kills;
      continue;
    }
    ASSERT_EQ(dataset("killed"), dataset("right"));
    for (const char* name : {"killed_text_document.idx", "killed_text_document.bin", "killed_report.json"})
      fs::remove(folder_ / name);
  }
  const auto last = run_program(prepare(input, "killed"));
  ASSERT_EQ(last.status, 0) << last.output;
  EXPECT_EQ(dataset("killed"), dataset("right"));
  EXPECT_FALSE(fs::exists((folder_ / "killed").string() + ".preparing"));
}

// Small documents, long lines, lines that are too long, text without a place to cut: none makes it take more than it may.
TEST_F(DataPrepareSlow, MemoryStaysUnderItsBound) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SKIP_FOR(machine) << "a sanitizer's own memory would be counted";
#endif
  constexpr int64_t kBound = int64_t{256} << 20;
  std::string small;
  for (int i = 0; i < 1000000; ++i) small += "{\"text\":\"a\"}\n";
  folder_.write("in/small.jsonl", small);
  std::string prose;
  while (prose.size() < size_t{6} << 20) prose += "Another line of a long text.\\n";
  folder_.write("in/long.jsonl", "{\"text\": \"" + prose + "\"}\n" + lines(3000) + "{\"text\": \"" + std::string(300 << 20, 'z') +
                                     "\"}\n" + lines(3000));
  folder_.write("in/wall.txt", std::string(100 << 20, 'w'));
  const auto result = run_program(prepare((folder_ / "in").string(), "out", "--memory 256MiB --on-error skip"));
  ASSERT_EQ(result.status, 0) << result.output;
  const json report = json::parse(contents(folder_ / "out_report.json"));
  EXPECT_LT(report["peak_memory_bytes"], kBound);
  EXPECT_EQ(report["findings"]["too_long"]["count"], 1);
  EXPECT_EQ(report["documents"], 1006002);
  // Bytes can be cut anywhere, a word of a pattern nowhere.
  const auto wall =
      run_program(fmt::format("data prepare {} --tokenizer {} --pattern gpt2 --output {} --memory 256MiB --on-error skip",
                              (folder_ / "in/wall.txt").string(), write_rank_file(), (folder_ / "wall").string()));
  ASSERT_EQ(wall.status, 0) << wall.output;
  const json of_wall = json::parse(contents(folder_ / "wall_report.json"));
  EXPECT_LT(of_wall["peak_memory_bytes"], kBound);
  EXPECT_EQ(of_wall["documents"], 0);
  EXPECT_TRUE(contains(of_wall["findings"]["too_long"]["first"], "iB of text without a place to cut it")) << of_wall["findings"];
}

TEST_F(DataPrepareTest, AFullDiskIsALineAndTheRunGoesOnLater) {
  const std::string input = folder_.write("a.jsonl", lines(4000));
  ASSERT_EQ(run_program(prepare(input, "right")).status, 0);
  // A limit on the size of files stands in for a full disk: writing fails in the middle.
  const auto full = run_program(prepare(input, "out"), "trap '' XFSZ; ulimit -f 4000;");
  EXPECT_EQ(full.status, 1) << full.output;
  EXPECT_TRUE(contains(full.output, "part-00000.bin"));
  EXPECT_FALSE(fs::exists(folder_ / "out_text_document.idx"));
  const auto again = run_program(prepare(input, "out"));
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_EQ(dataset("out"), dataset("right"));
}

TEST_F(DataPrepareTest, MistakesAreAnsweredInOneLine) {
  const std::string input = folder_.write("a.jsonl", lines(3));
  struct Mistake {
    std::string arguments;
    std::vector<std::string> words;
  };
  const std::vector<Mistake> table = {
      {prepare("missing.jsonl", "x"), {"missing.jsonl", "no such file"}},
      {prepare(input, "x", "--memory 1XB"), {"--memory 1XB", "512MiB"}},
      {prepare(input, "x", "--memory 0"), {"--memory 0", "512MiB"}},
      {prepare(input, "x", "--files 0-3"), {"--files 0-3", "a.jsonl", "no number"}},
      {prepare(input, "x", "--rank 2"), {"--rank 2", "--ranks"}},
      {prepare(input, "x", "--format tfrecord"), {"--format"}},
      {prepare(input, "x", "--format flat --validation 2"), {"--validation 2"}},
      {prepare(input, "x", "--format flat --split-by characters"), {"--split-by characters", ".txt"}},
      {fmt::format("data prepare {} --tokenizer nothing.json --output x", input), {"--tokenizer nothing.json"}},
      {fmt::format("data prepare {} --tokenizer bytes", input), {"--output"}},
      {prepare(input, "no/such/deep/folder/x", "--key body"), {"line 1", "\"body\""}},
  };
  for (const Mistake& mistake : table) {
    const auto result = run_program(mistake.arguments, "2>&1");
    EXPECT_EQ(result.status, 2) << mistake.arguments << result.output;
    const std::string line = result.output.substr(result.output.find("trireme: "));
    EXPECT_EQ(lines_of(line), 1) << line;
    for (const std::string& word : mistake.words) EXPECT_TRUE(contains(line, word)) << mistake.arguments;
  }
}

TEST_F(DataPrepareTest, TakesThePatternOfARankFile) {
  const std::string tokenizer = write_rank_file(), input = folder_.write("pattern.txt", "ab");
  const std::string command = "data prepare " + input + " --tokenizer " + tokenizer + " --output " + (folder_ / "ranks").string();
  const ProgramResult refused = run_program(command);
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(contains(refused.output, "give --pattern: gpt2, cl100k")) << refused.output;
  const ProgramResult result = run_program(command + " --pattern o200k");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(read_file(folder_ / "ranks_text_document.bin", 100), std::string("a\0b\0", 4));
}

// What the system does not let grow is answered as a full disk is.
TEST_F(DataPrepareTest, AFileThatMayNotGrowIsALine) {
  const std::string input = folder_.write("large.txt", std::string(300'000, 'x'));
  const ProgramResult result = run_shell("ulimit -f 100; " + std::string(TRIREME_BINARY) + " data prepare " + input +
                                         " --tokenizer bytes --output " + (folder_ / "limited").string());
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_TRUE(contains(result.output, "File too large")) << result.output;
}

TEST_F(DataPrepareTest, RanksOfAJobArrayMakeOneDataset) {
  for (int i = 0; i < 3; ++i) folder_.write(fmt::format("in/{}.jsonl", i), lines(200 + static_cast<size_t>(i)));
  const std::string input = (folder_ / "in").string();
  ASSERT_EQ(run_program(prepare(input, "right")).status, 0);
  for (int task = 3; task >= 1; --task) {
    const auto result = run_program(prepare(input, "array"),
                                    fmt::format("SLURM_ARRAY_TASK_ID={} SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1", task));
    ASSERT_EQ(result.status, 0) << result.output;
    EXPECT_TRUE(contains(result.output, fmt::format("rank {} of 3 (from SLURM_ARRAY_TASK_ID)", task - 1)));
  }
  EXPECT_EQ(dataset("array"), dataset("right"));
}

}  // namespace
}  // namespace trireme

// The trireme data commands over datasets, as their users meet them.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "../data/dataset_fixture.h"
#include "base/file.h"
#include "run_program.h"

namespace trireme {
namespace {

std::string small_recipe(const std::string& prefix) {
  return "demo trainer.max_steps=4 trainer.val_check_interval=0 model.encoder_seq_length=8 model.global_batch_size=2 "
         "model.micro_batch_size=2 model.num_layers=1 model.hidden_size=32 model.num_attention_heads=2 model.vocab_size=3000 "
         "model.data.data_impl=mmap model.data.data_prefix=[" +
         prefix + "]";
}

TEST(DataTools, ChoicesAreAnsweredWithTheWordsThereAre) {
  const std::pair<const char*, const char*> cases[] = {
      {"prepare x --tokenizer bytes --output y --format parquet", "parquet is not known; expected megatron, flat or llmc"},
      {"prepare x --tokenizer bytes --output y --eod apend", "expected append, prepend or none; did you mean append?"},
      {"prepare x --tokenizer bytes --output y --split-by words", "expected documents or characters"},
      {"prepare x --tokenizer bytes --output y --on-error 1", "expected stop or skip"},
      {"encode --tokenizer bytes --jsonl --on-error go", "expected stop or skip"},
      {"encode --tokenizer bytes --pattern gpt3", "expected gpt2, cl100k, llama3, qwen2 or o200k"},
      {"train-tokenizer x --output y --pattern gpt9", "expected gpt2, cl100k, llama3, qwen2 or o200k"}};
  for (const auto& [arguments, words] : cases) {
    const ProgramResult result = run_program(std::string("data ") + arguments + " < /dev/null");
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_TRUE(contains(result.output, words)) << result.output;
  }
}

TEST(DataTools, HelpIsText) {
  for (const char* command : {"encode", "decode", "train-tokenizer", "fetch", "push", "run", "prepare", "inspect", "verify",
                              "merge", "split", "index", "sample"}) {
    const ProgramResult result = run_program(std::string("data ") + command + " --help");
    EXPECT_EQ(result.status, 0) << command;
    for (const char byte : result.output)
      ASSERT_TRUE(byte == '\n' || static_cast<unsigned char>(byte) >= 0x20) << command << ": byte " << static_cast<int>(byte);
  }
}

// What a killed merge left is gone after the next; what one that still runs has is not touched.
TEST(DataTools, MergeClearsAwayWhatKilledOnesLeft) {
  const TemporaryFolder folder;
  const std::string prefix = write_dataset(folder, "a", 5), output = (folder / "all").string();
  for (const char* name : {"all.bin.123-0badf00d.partial", "all.idx.lengths.123-0badf00d.partial"}) folder.write(name, "left");
  folder.write("all.bin.124-0badf00d.partial", "held");
  File held = File::open_update(folder / "all.bin.124-0badf00d.partial");
  ASSERT_TRUE(held.lock());
  ASSERT_EQ(run_program("data merge " + prefix + " --output " + output).status, 0);
  std::vector<std::string> partial;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().extension() == ".partial") partial.push_back(entry.path().filename().string());
  EXPECT_EQ(partial, std::vector<std::string>{"all.bin.124-0badf00d.partial"});
}

// A flipped bit that leaves everything well-formed shows in the checksums that data prepare noted.
TEST(DataTools, VerifyComparesWithTheReport) {
  const TemporaryFolder folder;
  const std::string input = folder.write("a.jsonl", R"({"text": "the quick brown fox jumps over the lazy dog"})");
  const std::string output = (folder / "made").string(), prefix = output + "_text_document";
  ASSERT_EQ(run_program("data prepare " + input + " --tokenizer bytes --output " + output).status, 0);
  ProgramResult result = run_program("data verify " + prefix);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "as in " + output + "_report.json")) << result.output;
  const std::string bin = read_file(prefix + ".bin", 1 << 20), idx = read_file(prefix + ".idx", 1 << 20);
  const auto write = [](const std::string& path, std::string bytes, size_t flipped) {
    bytes[flipped] = static_cast<char>(bytes[flipped] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
  };
  write(prefix + ".bin", bin, 10);
  result = run_program("data verify " + prefix);
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.output, prefix + ".bin: its crc32c is")) << result.output;
  std::ofstream(prefix + ".bin", std::ios::binary) << bin;
  for (size_t byte = 0; byte < idx.size(); byte += 7) {
    write(prefix + ".idx", idx, byte);
    EXPECT_EQ(run_program("data verify " + prefix).status, 2) << "byte " << byte;
  }
  std::ofstream(prefix + ".idx", std::ios::binary) << idx;
  std::filesystem::remove(output + "_report.json");
  result = run_program("data verify " + prefix);
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(contains(result.output, "no report of data prepare beside it")) << result.output;
}

TEST(DataTools, EveryHelpBeginsWithAnExample) {
  for (const char* command : {"inspect", "verify", "merge", "split", "index", "sample"}) {
    const ProgramResult result = run_program(std::string("data ") + command + " --help");
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(contains(result.output, "trireme data " + std::string(command)));
  }
}

TEST(DataTools, InspectAndVerify) {
  const TemporaryFolder folder;
  const std::string prefix = write_dataset(folder, "a", 25);
  ProgramResult result = run_program("data inspect " + prefix);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "25 documents"));
  EXPECT_TRUE(contains(result.output, "#"));
  const auto json = nlohmann::json::parse(run_program("data inspect --json --tokenizer bytes " + prefix).output);
  EXPECT_EQ(json[0]["sequences"], 25);
  EXPECT_EQ(json[0]["excerpts"].size(), 3u);
  result = run_program("data verify --vocabulary 3000 " + prefix + ".idx");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "good"));
  result = run_program("data verify --vocabulary 100 " + prefix);
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(lines_of(result.output), 1);
  EXPECT_TRUE(contains(result.output, "a.bin: byte"));
  result = run_program("data verify " + prefix + " " + prefix + "_none");
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.output, "good"));
  EXPECT_TRUE(contains(result.output, "a_none.idx does not exist"));
}

TEST(DataTools, MergeAndSplit) {
  const TemporaryFolder folder;
  const std::string a = write_dataset(folder, "a", 25), b = write_dataset(folder, "b", 15), all = (folder / "all").string();
  EXPECT_EQ(run_program("data merge --dry-run -o " + all + " " + a + " " + b).status, 0);
  EXPECT_FALSE(std::filesystem::exists(all + ".idx"));
  EXPECT_TRUE(contains(run_program("data merge -o " + all + " " + a + " " + b).output, "40 documents"));
  EXPECT_EQ(run_program("data merge -o " + all + " " + a + " " + b).status, 2);
  EXPECT_EQ(run_program("data merge --overwrite -o " + all + " " + a + " " + b).status, 0);
  const auto parts =
      nlohmann::json::parse(run_program("data split --json --splits 3,1 -o " + (folder / "p").string() + " " + all).output);
  EXPECT_EQ(parts[0]["documents"], 30);
  EXPECT_EQ(parts[1]["documents"], 10);
  EXPECT_TRUE(std::filesystem::exists(folder / "p_validation.bin"));
  const ProgramResult result = run_program("data split --splits x -o " + (folder / "q").string() + " " + all);
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.output, "--splits x"));
}

// What `sample` prints is what the run trains on, so a run over the index that `index` made must work.
TEST(DataTools, IndexSampleAndTrain) {
  const TemporaryFolder folder;
  const std::string recipe = small_recipe(write_dataset(folder, "a", 25));
  const auto index = nlohmann::json::parse(run_program("data index --json " + recipe).output);
  EXPECT_EQ(index["splits"]["train"]["needed"], 8);
  EXPECT_TRUE(std::filesystem::exists(folder / "a/cache/GPTDataset_indices"));
  const auto sample = nlohmann::json::parse(run_program("data sample --json --sample 3 " + recipe).output);
  EXPECT_EQ(sample["tokens"].size(), 8u);
  EXPECT_EQ(sample["tokens"][1], sample["targets"][0]);
  ProgramResult result = run_program("data sample --sample 1000000 " + recipe);
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.output, "samples 0 to"));
  result = run_program("train " + recipe + " exp_manager.explicit_log_dir=" + (folder / "run").string());
  EXPECT_EQ(result.status, 0) << result.output;
  std::ifstream file(folder / "run/summary.json");
  EXPECT_TRUE(nlohmann::json::parse(file).contains("data_wait"));
  result = run_program("train " + recipe + " model.vocab_size=50 exp_manager.explicit_log_dir=" + (folder / "other").string());
  EXPECT_EQ(result.status, 2) << result.output;
  EXPECT_TRUE(contains(result.output, "model.vocab_size is 50"));
}

}  // namespace
}  // namespace trireme

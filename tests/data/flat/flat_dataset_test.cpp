// Files of tokens without documents: flat ones and shards of llm.c.
#include "data/flat/flat_dataset.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/dataset_fixture.h"
#include "data/expect_user_error.h"
#include "data/open/open_dataset.h"

namespace trireme {
namespace {

using Texts = std::vector<std::string>;

std::string tokens_from(uint16_t first, int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    const auto token = static_cast<uint16_t>(first + i);
    bytes.append(reinterpret_cast<const char*>(&token), 2);
  }
  return bytes;
}

std::string llmc_shard(uint16_t first, int32_t count, int32_t magic = 20240520, int32_t version = 1) {
  std::vector<int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = count;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) + tokens_from(first, count);
}

std::unique_ptr<Dataset> open(DataImpl kind, Texts prefix, WindowOrder order, Split split = Split::train,
                              int64_t vocabulary = 10000, std::string splits = "80,20,0") {
  DataSettings settings;
  settings.data_impl = kind;
  settings.data_prefix = std::move(prefix);
  settings.window_order = order;
  settings.splits_string = std::move(splits);
  return open_dataset(settings, vocabulary, split, 4, 1000, 7);
}

TEST(FlatDataset, RandomWindowsCoverTheFileAndNothingElse) {
  const TemporaryFolder folder;
  folder.write("train.bin", tokens_from(0, 50));
  const auto dataset = open(DataImpl::flat, {folder.path().string()}, WindowOrder::random);
  EXPECT_EQ(dataset->size(), 1000);
  std::map<int32_t, int> begins;
  for (int64_t i = 0; i < 1000; ++i) {
    const Sample sample = sample_of(*dataset, i);
    for (int32_t t = 0; t < 4; ++t) {
      ASSERT_EQ(sample.tokens[static_cast<size_t>(t)], sample.tokens[0] + t);
      ASSERT_EQ(sample.targets[static_cast<size_t>(t)], sample.tokens[0] + t + 1);
    }
    ++begins[sample.tokens[0]];
  }
  // 46 windows; 1000 draws leave one out with probability 46 * (45/46)^1000 < 1e-7.
  EXPECT_EQ(begins.size(), 46u);
  EXPECT_EQ(begins.rbegin()->first, 45);
}

TEST(FlatDataset, DrawsDependOnSeedSplitAndSampleAlone) {
  const TemporaryFolder folder;
  folder.write("train.bin", tokens_from(0, 5000));
  folder.write("val.bin", tokens_from(0, 5000));
  const auto train = open(DataImpl::flat, {folder.path().string()}, WindowOrder::random);
  const auto again = open(DataImpl::flat, {folder.path().string()}, WindowOrder::random);
  const auto validation = open(DataImpl::flat, {folder.path().string()}, WindowOrder::random, Split::validation);
  EXPECT_EQ(sample_of(*train, 700), sample_of(*again, 700));
  int same = 0;
  for (int64_t i = 0; i < 100; ++i) same += sample_of(*train, i) == sample_of(*validation, i) ? 1 : 0;
  EXPECT_LT(same, 5);
}

TEST(FlatDataset, SequentialWindowsShareATokenAndStartAgain) {
  const TemporaryFolder folder;
  folder.write("train.bin", tokens_from(0, 14));  // three windows of 4 + 1
  const auto dataset = open(DataImpl::flat, {folder.path().string()}, WindowOrder::sequential);
  for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(sample_of(*dataset, i).tokens[0], 4 * (i % 3));
}

TEST(FlatDataset, FilesAndPatternsAreSplitByTokens) {
  const TemporaryFolder folder;
  folder.write("a.bin", tokens_from(0, 50));
  folder.write("b.bin", tokens_from(100, 50));
  const Texts pattern{(folder / "*.bin").string()};
  const auto train = open(DataImpl::flat, pattern, WindowOrder::sequential);  // tokens 0 to 49 and 100 to 129
  std::set<int32_t> begins;
  for (int64_t i = 0; i < 19; ++i) begins.insert(sample_of(*train, i).tokens[0]);
  EXPECT_EQ(*begins.begin(), 0);
  EXPECT_EQ(*begins.rbegin(), 124);
  EXPECT_FALSE(begins.contains(48));  // a window does not cross from file to file
  EXPECT_EQ(sample_of(*open(DataImpl::flat, pattern, WindowOrder::sequential, Split::validation), 0).tokens[0], 130);
}

TEST(FlatDataset, ShardsOfLlmC) {
  const TemporaryFolder folder;
  folder.write("fineweb_train_000001.bin", llmc_shard(0, 9));
  folder.write("fineweb_train_000002.bin", llmc_shard(500, 9));
  folder.write("fineweb_val_000000.bin", llmc_shard(900, 9));
  const auto train = open(DataImpl::llmc, {folder.path().string()}, WindowOrder::sequential);
  std::vector<int32_t> begins;
  for (int64_t i = 0; i < 5; ++i) begins.push_back(sample_of(*train, i).tokens[0]);
  EXPECT_EQ(begins, (std::vector<int32_t>{0, 4, 500, 504, 0}));
  EXPECT_EQ(sample_of(*open(DataImpl::llmc, {folder.path().string()}, WindowOrder::sequential, Split::validation), 0).tokens[0],
            900);
}

TEST(FlatDataset, TheDescriptionBesideAFileCounts) {
  const TemporaryFolder folder;
  std::string wide;
  for (int32_t i = 0; i < 10; ++i) wide.append(reinterpret_cast<const char*>(&i), 4);
  const std::string path = folder.write("train.bin", wide);
  folder.write("tokens.json", R"({"token_type": "uint32", "vocabulary": 300, "files": {"train.bin": 10, "val.bin": 3}})");
  EXPECT_EQ(sample_of(*open(DataImpl::flat, {path}, WindowOrder::sequential, Split::train, 300, "1"), 0).targets,
            (std::vector<int32_t>{1, 2, 3, 4}));
  const auto opening = [&](int64_t vocabulary) {
    return [=] { open(DataImpl::flat, {path}, WindowOrder::sequential, Split::train, vocabulary, "1"); };
  };
  expect_user_error(opening(299), {"train.bin", "vocabulary of 300", "model.vocab_size is 299"});
  folder.write("train.bin", wide.substr(4));
  expect_user_error(opening(300), {"train.bin: 36 bytes", "tokens.json says 10 tokens of uint32"});
  folder.write("tokens.json", R"({"token_type": "float", "vocabulary": 300, "files": {"train.bin": 9}})");
  expect_user_error(opening(300), {"tokens.json", "float"});
  folder.write("tokens.json", "[]");
  expect_user_error(opening(300), {"tokens.json", "prepare the data again"});
}

TEST(FlatDataset, MistakesAreNamed) {
  const TemporaryFolder folder;
  const auto flat = [&](const std::string& path, int64_t vocabulary = 10000) {
    return [=] { sample_of(*open(DataImpl::flat, {path}, WindowOrder::random, Split::train, vocabulary, "1"), 0); };
  };
  const auto llmc = [&](const std::string& path) {
    return [=] { open(DataImpl::llmc, {path}, WindowOrder::random, Split::train, 10000, "1"); };
  };
  expect_user_error(flat((folder / "none").string()), {"none' does not exist"});
  expect_user_error(flat((folder / "*.bin").string()), {"matches no file"});
  expect_user_error(flat(folder.path().string()), {"holds no train.bin"});
  expect_user_error(flat(folder.write("odd.bin", "abc")), {"odd.bin: 3 bytes", "uint16"});
  expect_user_error(flat(folder.write("short.bin", tokens_from(0, 4))),
                    {"4 tokens in 1 files for train", "takes model.encoder_seq_length + 1 = 5"});
  expect_user_error(flat(folder.write("empty.bin", "")), {"no tokens"});
  expect_user_error(flat(folder.write("big.bin", tokens_from(100, 5)), 102), {"big.bin: token 104", "model.vocab_size is 102"});
  expect_user_error(flat(folder.write("shard.bin", llmc_shard(0, 10))), {"shard.bin: byte 0", "data_impl=llmc"});
  expect_user_error(llmc(folder.write("l.bin", "abc")), {"l.bin: byte 3", "header of 1024"});
  expect_user_error(llmc(folder.write("l.bin", llmc_shard(0, 10, 1))), {"l.bin: byte 0", "1 is not a known kind"});
  expect_user_error(llmc(folder.write("l.bin", llmc_shard(0, 10, 20240522))), {"byte 0", "evaluation"});
  expect_user_error(llmc(folder.write("l.bin", llmc_shard(0, 10, 20240520, 2))), {"byte 4", "version 2"});
  expect_user_error(llmc(folder.write("l.bin", llmc_shard(0, 10) + "x")), {"byte 8", "10 tokens", "21 bytes"});
  expect_user_error(llmc(folder.write("l.bin", llmc_shard(0, 10, 20240801, 7))), {"byte 8", "uint32"});
}

}  // namespace
}  // namespace trireme

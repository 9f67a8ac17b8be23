// From model.data.* to datasets: splits, blends, and indices kept in files.
#include "data/open/open_indexed.h"

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "data/dataset_fixture.h"
#include "data/expect_user_error.h"
#include "data/open/open_dataset.h"
#include "data/samples/blend.h"
#include "data/samples/gpt_dataset.h"

namespace trireme {
namespace {

using Texts = std::vector<std::string>;
namespace fs = std::filesystem;

DataSettings mmap_settings(Texts prefixes, std::string splits = "80,20,0") {
  DataSettings settings;
  settings.data_impl = DataImpl::mmap;
  settings.data_prefix = std::move(prefixes);
  settings.splits_string = std::move(splits);
  return settings;
}

struct Opened {
  DatasetsBySplit datasets;
  Texts notices;
  const Dataset& train() const { return *datasets[0]; }
  const Dataset& validation() const { return *datasets[1]; }
};

Opened open(const DataSettings& settings, std::optional<int64_t> train, std::optional<int64_t> validation = std::nullopt) {
  Opened opened;
  const DatasetRequest request{
      .vocabulary = 1 << 20, .sequence = 8, .seed = 1234, .samples_needed = {train, validation, std::nullopt}};
  opened.datasets = open_datasets(settings, request, [&](const std::string& line) { opened.notices.push_back(line); });
  return opened;
}

std::vector<Sample> samples(const Dataset& dataset) {
  std::vector<Sample> all;
  for (int64_t i = 0; i < dataset.size(); ++i) all.push_back(sample_of(dataset, i));
  return all;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

TEST(OpenIndexed, SplitsOfOneDatasetDoNotOverlap) {
  const TemporaryFolder folder;
  const std::string prefix = write_dataset(folder, "a", 50);
  const Opened opened = open(mmap_settings({prefix}), 10, 10);
  std::set<int32_t> train, validation;  // documents, by the hundreds of their tokens
  for (const Sample& sample : samples(opened.train()))
    for (const int32_t token : sample.tokens) train.insert(token / 100);
  for (const Sample& sample : samples(opened.validation()))
    for (const int32_t token : sample.tokens) validation.insert(token / 100);
  EXPECT_LT(*train.rbegin(), 40);
  EXPECT_GE(*validation.begin(), 40);
  EXPECT_TRUE(opened.notices.empty());
}

TEST(OpenIndexed, CoreIndicesAreKeptUnderTheirNamesAndFoundAgain) {
  const TemporaryFolder folder;
  const std::string prefix = write_dataset(folder, "a", 50);
  DataSettings settings = mmap_settings({prefix});
  const auto first = samples(open(settings, 100).train());
  EXPECT_EQ(names_in(prefix + "/cache/GPTDataset_indices").size(), 4u);
  settings.index_mapping_dir = (folder / "maps").string();
  EXPECT_EQ(samples(open(settings, 100).train()), first);
  const auto names = names_in(folder / "maps");
  ASSERT_EQ(names.size(), 4u);
  for (const std::string& name : names) EXPECT_NE(name.find("-GPTDataset-train-"), std::string::npos) << name;
  // Proof that the files are read: one of them is exchanged for another permutation.
  const std::string shuffle = (folder / "maps" / *names.rbegin()).string();
  ASSERT_TRUE(shuffle.ends_with("shuffle_index.npy"));
  std::string bytes = read_file(shuffle, 1 << 20);
  std::swap_ranges(bytes.end() - 8, bytes.end() - 4, bytes.end() - 4);
  atomic_write(shuffle, bytes_of(bytes));
  const auto swapped = samples(open(settings, 100).train());
  EXPECT_EQ(swapped.back(), first[first.size() - 2]);
}

TEST(OpenIndexed, LegacyIndicesHaveTheirOwnNames) {
  const TemporaryFolder folder;
  const std::string prefix = write_dataset(folder, "a", 50);
  DataSettings settings = mmap_settings({prefix});
  settings.legacy_dataset = true;
  open(settings, 100, 7);
  for (const char* name : {"a_train_indexmap_100ns_8sl_1234s_doc_idx.npy", "a_train_indexmap_100ns_8sl_1234s_sample_idx.npy",
                           "a_train_indexmap_100ns_8sl_1234s_shuffle_idx.npy", "a_valid_indexmap_7ns_8sl_1234s_doc_idx.npy"})
    EXPECT_TRUE(fs::exists(folder / name)) << name;
  settings.index_mapping_dir = (folder / "maps").string();
  open(settings, 100);
  EXPECT_TRUE(fs::exists(folder / "maps/a_train_indexmap_100ns_8sl_1234s_doc_idx.npy"));
}

TEST(OpenIndexed, DamagedAndStaleIndicesAreMadeAgain) {
  const TemporaryFolder folder;
  const std::string prefix = write_dataset(folder, "a", 50);
  DataSettings settings = mmap_settings({prefix});
  settings.legacy_dataset = true;
  const auto good = samples(open(settings, 100).train());
  const std::string base = prefix + "_train_indexmap_100ns_8sl_1234s_";
  for (const char* part : {"doc_idx.npy", "sample_idx.npy", "shuffle_idx.npy"}) {
    SCOPED_TRACE(part);
    const std::string bytes = read_file(base + part, 1 << 20);
    for (const std::string& damaged : Texts{"", bytes.substr(0, bytes.size() - 4), std::string(bytes.size(), 'x'), bytes + "1234",
                                            bytes.substr(0, 128) + std::string(bytes.size() - 128, '\x7f')}) {
      atomic_write(base + part, bytes_of(damaged));
      const Opened opened = open(settings, 100);
      ASSERT_EQ(opened.notices.size(), 1u);
      EXPECT_TRUE(contains(opened.notices[0], "made again"));
      EXPECT_EQ(samples(opened.train()), good);
      EXPECT_EQ(read_file(base + part, 1 << 20), bytes);
    }
  }
  fs::remove(base + "doc_idx.npy");
  EXPECT_EQ(samples(open(settings, 100).train()), good);

  // Other data under the same name, with as many tokens, and then with more.
  for (const char* suffix : {".bin", ".idx"}) fs::remove(prefix + suffix);
  {
    IndexedDatasetWriter writer(prefix, TokenType::int32);
    for (int64_t d = 49; d >= 0; --d) {
      writer.add_sequence(std::vector<int32_t>(static_cast<size_t>(1 + d * 7 % 40), 5));
      writer.end_document();
    }
    writer.finish();
  }
  EXPECT_EQ(open(settings, 100).notices.size(), 1u);
  EXPECT_TRUE(open(settings, 100).notices.empty());
}

TEST(OpenIndexed, AFolderThatCannotBeWrittenKeepsTheIndexInMemory) {
  const TemporaryFolder folder;
  DataSettings settings = mmap_settings({write_dataset(folder, "a", 50)});
  const auto good = samples(open(settings, 100).train());
  settings.index_mapping_dir = folder.write("file", "not a folder");
  const Opened opened = open(settings, 100);
  ASSERT_EQ(opened.notices.size(), 1u);
  EXPECT_TRUE(contains(opened.notices[0], "model.data.index_mapping_dir"));
  EXPECT_EQ(samples(opened.train()), good);
}

TEST(OpenIndexed, BlendsByWeight) {
  const TemporaryFolder folder;
  const std::string a = write_dataset(folder, "a", 50), b = write_dataset(folder, "b", 30, 10000);
  DataSettings settings = mmap_settings({"3", a, "7", b}, "1");
  settings.index_mapping_dir = (folder / "maps").string();
  const auto blended = samples(open(settings, 200).train());
  ASSERT_EQ(blended.size(), 200u);
  int64_t of_b = 0;
  for (const Sample& sample : blended) of_b += sample.tokens[0] >= 10000 ? 1 : 0;
  EXPECT_EQ(of_b, 140);
  EXPECT_EQ(names_in(folder / "maps").size(), 2u * 4 + 3);
  EXPECT_EQ(samples(open(settings, 200).train()), blended);  // now from files
  settings.index_mapping_dir.clear();
  EXPECT_EQ(samples(open(settings, 200).train()), blended);
}

TEST(OpenIndexed, BlendsWithoutWeightsUseEverythingOnce) {
  const TemporaryFolder folder;
  const std::string a = write_dataset(folder, "a", 50), b = write_dataset(folder, "b", 30, 10000),
                    c = write_dataset(folder, "c", 10, 20000);
  const DataSettings settings = mmap_settings({a, b, c}, "1");
  EXPECT_EQ(open(settings, 150).train().size(), 150);
  expect_user_error([&] { open(settings, 100000); }, {"without weights", "100000 are needed"});
  DataSettings legacy = settings;
  legacy.legacy_dataset = true;
  expect_user_error([&] { open(legacy, 100); }, {"3 datasets without weights", "legacy_dataset"});
}

TEST(OpenIndexed, DatasetsOfTheirOwnForEachSplit) {
  const TemporaryFolder folder;
  const std::string a = write_dataset(folder, "a", 50), b = write_dataset(folder, "b", 30, 10000);
  DataSettings settings = mmap_settings({});
  settings.data_prefix = {a};
  settings.validation_prefix = {b};
  const Opened opened = open(settings, 50, 20);
  for (const Sample& sample : samples(opened.train())) EXPECT_LT(sample.tokens[0], 10000);
  for (const Sample& sample : samples(opened.validation())) EXPECT_GE(sample.tokens[0], 10000);
  settings.validation_prefix.clear();
  settings.test_prefix = {b};
  expect_user_error([&] { open(settings, 50, 20); }, {"model.data.data_prefix.validation is empty"});
}

TEST(OpenIndexed, AutoBlendWeighsByTheSizeOfTheFiles) {
  const TemporaryFolder folder;
  write_dataset(folder, "a", 50);
  write_dataset(folder, "b", 25);
  DataSettings settings = mmap_settings({folder.path().string()}, "1");
  settings.auto_blend = 1;
  const Blend blend = blend_of_split(settings, Split::train);
  ASSERT_EQ(blend.prefixes.size(), 2u);
  const auto a = static_cast<double>(fs::file_size(folder / "a.bin")), b = static_cast<double>(fs::file_size(folder / "b.bin"));
  EXPECT_NEAR(blend.weights[0], a / (a + b), 5e-7);
  EXPECT_GE(open(settings, 60).train().size(), 60);
  settings.data_prefix = {"1", (folder / "a").string()};
  expect_user_error([&] { open(settings, 60); }, {"auto_blend=1", "use one of the two"});
}

TEST(OpenIndexed, ADatasetMayBeListedTwice) {
  const TemporaryFolder folder;
  const std::string a = write_dataset(folder, "a", 50);
  DataSettings settings = mmap_settings({"1", a, "1", a, "1", a}, "1");
  settings.index_mapping_dir = (folder / "maps").string();
  const Opened opened = open(settings, 90);
  EXPECT_TRUE(opened.notices.empty());
  EXPECT_EQ(sample_of(opened.train(), 0), sample_of(opened.train(), 1));
}

TEST(OpenIndexed, LengthsThatDoNotAddUpAreNamed) {
  const TemporaryFolder folder;
  const std::string a = write_dataset(folder, "a", 50);
  std::string idx = read_file(a + ".idx", 1 << 20);
  for (const int32_t length : {1000, -5}) {
    idx.replace(34 + 4 * 7, 4, reinterpret_cast<const char*>(&length), 4);
    folder.write("a.idx", idx);
    expect_user_error([&] { open(mmap_settings({a}), 10); }, {a, "run trireme data verify"});
  }
}

TEST(OpenIndexed, MistakesAreNamed) {
  const TemporaryFolder folder;
  const std::string a = write_dataset(folder, "a", 50);
  expect_user_error([&] { open(mmap_settings({(folder / "none").string()}), 10); }, {"none.idx does not exist"});
  expect_user_error([&] { open(mmap_settings({a}, "1,0,0"), 10, 10); }, {"splits_string=1,0,0", "0 tokens for validation"});
  DataSettings settings = mmap_settings({a});
  settings.shuffle_documents = false;
  expect_user_error([&] { open(settings, 10); }, {"shuffle_documents=false", "legacy_dataset=true"});
  settings = mmap_settings({a});
  settings.index_tokenizer = "GPT2";
  expect_user_error([&] { open(settings, 10); }, {"model.data.index_tokenizer=GPT2", "JSON"});
}

}  // namespace
}  // namespace trireme

// Checkpoints that several ranks save and load together; reshard_slow_test has all pairs of layouts.
#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "train/reshard_fixture.h"

namespace trireme {
namespace {

constexpr MeshShape kMany{.tp = 2, .dp = 1, .pp = 2};

TEST(RanksCheckpoint, EveryElementIsSavedOnce) {
  const TemporaryFolder folder;
  train_save_train(kMany, folder.path());
  const StoredCheckpoint checkpoint = open_checkpoint(folder / checkpoint_name(2));
  EXPECT_EQ(checkpoint.manifest.shards.size(), 4u);
  std::map<std::string, int64_t> elements, expected;
  for (const StoredShard& shard : checkpoint.manifest.shards)
    for (const StoredTensor& tensor : shard.tensors) elements[tensor.name] += tensor.slice.count();
  for (const ParameterRow& row : parameter_table(reshard_settings(kMany).model))
    for (const char* prefix : {"", "first_moment.", "second_moment."}) expected[prefix + row.name] = row.count();
  EXPECT_EQ(elements, expected);
}

TEST(RanksCheckpoint, SameLayoutRepeatsTheBits) {
  const TemporaryFolder folder;
  const std::vector<double> saved = train_save_train(kMany, folder.path());
  EXPECT_EQ(load_train(kMany, folder.path()), saved);
}

TEST(RanksCheckpoint, OtherLayoutsGoOn) {
  const TemporaryFolder folder;
  const std::vector<double> saved = train_save_train(kMany, folder.path());
  for (const MeshShape& shape : {MeshShape{}, MeshShape{.dp = 2}}) {
    const std::vector<double> loaded = load_train(shape, folder.path());
    for (size_t step = 0; step < saved.size(); ++step) EXPECT_NEAR(loaded[step], saved[step], 2e-3 * saved[step]);
  }
}

// Adapters of a rank are rows or columns of the adapter; the halves that several ranks have are saved once.
void with_adapters(ModelSettings& model) {
  model.peft.scheme = PeftScheme::lora;
  model.peft.lora = {.adapter_dim = 4, .target_modules = {"all"}};
}

TEST(RanksCheckpoint, AdaptersAreSavedOnce) {
  const TemporaryFolder folder;
  train_save_train(kMany, folder.path(), with_adapters);
  std::map<std::string, int64_t> elements, expected;
  for (const StoredShard& shard : open_checkpoint(folder / checkpoint_name(2)).manifest.shards)
    for (const StoredTensor& tensor : shard.tensors) elements[tensor.name] += tensor.slice.count();
  const ModelSettings model = reshard_settings(kMany, with_adapters).model;
  for (const ParameterRow& row : parameter_table(model)) expected[row.name] = row.count();
  for (const LoraTarget& target : lora_targets(model))
    for (const char* prefix : {"", "first_moment.", "second_moment."}) {
      expected[prefix + target.name() + ".a"] = 4 * target.columns;
      expected[prefix + target.name() + ".b"] = 4 * target.rows;
    }
  EXPECT_EQ(elements, expected);
}

TEST(RanksCheckpoint, AdaptersGoOnOnOtherLayouts) {
  const TemporaryFolder folder;
  const std::vector<double> saved = train_save_train(kMany, folder.path(), with_adapters);
  EXPECT_EQ(load_train(kMany, folder.path(), with_adapters), saved);
  for (const MeshShape& shape : {MeshShape{}, MeshShape{.tp = 4}, MeshShape{.dp = 4}, MeshShape{.tp = 2, .cp = 2, .dp = 2}}) {
    const std::vector<double> loaded = load_train(shape, folder.path(), with_adapters);
    for (size_t step = 0; step < saved.size(); ++step) EXPECT_NEAR(loaded[step], saved[step], 2e-3 * saved[step]);
  }
}

// The second stage cannot read its shard of the newest; all ranks go back to the one before.
TEST(RanksCheckpoint, DamageForOneRankIsDamageForAll) {
  const TemporaryFolder folder;
  on_mesh(kMany, [&](ReshardRank& run) {
    run.step();
    run.save(folder.path());
    run.step();
    run.save(folder.path());
  });
  const auto shard = folder / checkpoint_name(2) / "rank-00003.safetensors";
  std::string bytes = read_file(shard, 1 << 24);
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  std::ofstream(shard, std::ios::binary) << bytes;
  std::mutex mutex;
  std::multiset<int64_t> steps;
  on_mesh(kMany, [&](ReshardRank& run) {
    const NewestCheckpoint newest = load_newest(
        folder.path(), [&](const CheckpointManifest&) { return checkpoint_tensors(run.engine(), CheckpointUse::load); },
        &run.control());
    const std::lock_guard lock(mutex);
    steps.insert(newest.checkpoint->manifest.info.step);
    EXPECT_TRUE(contains(newest.skipped.at(0), "step-00000002: shard rank-00003.safetensors is damaged"));
  });
  EXPECT_EQ(steps, std::multiset<int64_t>({1, 1, 1, 1}));
}

// One rank cannot write: the save fails on all with the same words, nothing is left of it, and the next one succeeds.
TEST(RanksCheckpoint, OneShardThatCannotBeWrittenFailsTheSave) {
  const TemporaryFolder folder;
  std::mutex mutex;
  std::multiset<std::string> messages;
  on_mesh({.tp = 2}, [&](ReshardRank& run) {
    run.step();
    CheckpointWriter writer(folder.path(), checkpoint_tensors(run.engine(), CheckpointUse::save), {}, &run.control());
    if (run.control().rank() == 1) {
      const auto temporary = folder / (checkpoint_name(1) + kWritingSuffix);
      while (!std::filesystem::exists(temporary)) std::this_thread::yield();  // rank 0 makes it
      std::filesystem::create_directory(temporary / "rank-00001.safetensors");
    }
    std::string message;
    try {
      writer.snapshot({.step = 1});
      writer.wait();
    } catch (const Failure& failure) {
      message = failure.what();
    }
    const std::lock_guard lock(mutex);
    messages.insert(message);
  });
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(*messages.begin(), *messages.rbegin());
  EXPECT_TRUE(contains(*messages.begin(), "rank-00001.safetensors"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  train_save_train({.tp = 2}, folder.path());
  EXPECT_TRUE(find_latest(folder.path()).checkpoint);
}

}  // namespace
}  // namespace trireme

// Checkpoints that go to a local folder first.
#include "train/checkpoint/local_store.h"

#include "checkpoint_fixture.h"
#include "comm/control.h"

namespace trireme {
namespace {

class LocalStoreTest : public CheckpointTest {
 protected:
  std::unique_ptr<LocalStore> store(const std::filesystem::path& shared) {
    return std::make_unique<LocalStore>(local.path() / "run", shared, LocalStore::Leader::yes, Retention{.keep_last = 2}, alone);
  }
  void fill(int64_t step) {
    for (HeldSlice& slice : model) slice.fill(step);
  }
  Names local_names() {
    Names found;
    for (const auto& entry : std::filesystem::directory_iterator(local / "run")) found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }

  TemporaryFolder local;
  Control alone;
};

TEST_F(LocalStoreTest, ASaveIsLocalAtOnceAndInTheRunsFolderLater) {
  CheckpointWriter writer(folder.path(), tensors_of(model), {}, &alone, store(folder.path()));
  for (int64_t step = 1; step <= 5; ++step) {
    fill(step);
    writer.snapshot({.step = step});
    writer.wait_until_free();
    EXPECT_EQ(open_checkpoint(local / "run" / checkpoint_name(step)).manifest.info.step, step);
  }
  writer.wait();
  EXPECT_EQ(loaded_step(), 5);
  EXPECT_LE(names().size(), 2U);
  // The newest two, and perhaps one that was being copied during the last save: the next save removes it.
  const Names left = local_names();
  EXPECT_LE(left.size(), 3U);
  EXPECT_EQ(Names(left.end() - 2, left.end()), Names({"step-00000004", "step-00000005"}));
  load_checkpoint(open_checkpoint(local / "run" / checkpoint_name(4)), tensors_of(model));
  for (HeldSlice& slice : model) EXPECT_EQ(slice.values(), slice.expected(4));
  writer.remove_local_copies();
  EXPECT_FALSE(std::filesystem::exists(local / "run"));
}

// What cannot be copied is said; the local checkpoint is whole, and the next copy is tried.
TEST_F(LocalStoreTest, ACopyThatFailsIsSaidAndTheNextOneIsTried) {
  const std::filesystem::path shared = folder / "checkpoints";
  folder.write("checkpoints", "a file where the folder should be");
  CheckpointWriter writer(shared, tensors_of(model), {}, &alone, store(shared));
  fill(1);
  writer.snapshot({.step = 1});
  EXPECT_THROW(writer.wait(), Failure);
  EXPECT_EQ(local_names(), Names({"step-00000001"}));
  std::filesystem::remove(shared);
  fill(2);
  writer.snapshot({.step = 2});
  writer.wait();
  EXPECT_EQ(open_checkpoint(shared / checkpoint_name(2)).manifest.info.step, 2);
}

// Ranks learn at different times that a copy has failed. If that kept one of them from a save, the others would wait for it.
TEST_F(LocalStoreTest, ACopyThatFailsKeepsNoRankFromTheNextSave) {
  const std::filesystem::path shared = folder / "checkpoints";
  folder.write("checkpoints", "a file where the folder should be");
  CheckpointWriter writer(shared, tensors_of(model), {}, &alone, store(shared));
  for (int64_t step = 1; step <= 100; ++step) EXPECT_NO_THROW(writer.snapshot({.step = step})) << step;
  EXPECT_THROW(writer.wait(), Failure);
}

TEST_F(LocalStoreTest, WithoutRoomASaveGoesToTheRunsFolder) {
  local.write("run", "a file where the folder should be");
  CheckpointWriter writer(folder.path(), tensors_of(model), {}, &alone, store(folder.path()));
  fill(3);
  writer.snapshot({.step = 3});
  writer.wait();
  EXPECT_EQ(loaded_step(), 3);
}

TEST_F(LocalStoreTest, RunsHaveFoldersOfTheirOwn) {
  EXPECT_EQ(local_store_folder("/l", "/runs/a"), local_store_folder("/l", "/runs/b/../a"));
  EXPECT_NE(local_store_folder("/l", "/runs/a"), local_store_folder("/l", "/runs/b"));
}

}  // namespace
}  // namespace trireme
